#include "option/spec.hpp"

#include <algorithm>
#include <array>

#include "base/units.hpp"

namespace nccl_check::option {
namespace {

constexpr std::array<std::string_view, 3> collective_names{"all_reduce", "all_gather", "send_recv"};
constexpr std::array<std::string_view, 3> environment_names{"auto", "off", "show"};

constexpr std::uint64_t kibi = 1024;
constexpr std::uint64_t gibi = kibi * kibi * kibi;
constexpr std::uint64_t least_size = kibi;
constexpr std::uint64_t most_size = 64 * gibi;
constexpr double least_busbw = 0.001;
constexpr double most_busbw = 100'000;
constexpr std::chrono::milliseconds least_time{100};
constexpr std::chrono::milliseconds most_time = std::chrono::hours{1};

// One word of the grammar. `set` puts it into the Spec; it returns what is wrong with the value, or "".
struct Word {
  std::string_view key;
  std::string_view value;  // "" for a word without one, else how the value looks in the help
  std::string_view meaning;
  std::string (*set)(Spec&, std::string_view value);
};

std::string set_busbw(Spec& spec, std::string_view value) {
  const auto number = parse_number(value);
  if (!number || *number < least_busbw || *number > most_busbw)
    return "is not a rate in GB/s: a number from 0.001 to 100000, such as busbw=44 or busbw=11.5";
  spec.busbw = *number;
  return "";
}

std::string set_size(Spec& spec, std::string_view value) {
  const auto bytes = parse_size(value);
  if (!bytes || *bytes < least_size || *bytes > most_size)
    return "is not a size: bytes, or a number with K, M or G, from 1K to 64G, such as size=256M";
  spec.size = *bytes;
  return "";
}

std::string set_collective(Spec& spec, std::string_view value) {
  const auto at = std::find(collective_names.begin(), collective_names.end(), value);
  if (at == collective_names.end()) return "is not a collective: all_reduce, all_gather or send_recv";
  spec.collective = static_cast<Collective>(at - collective_names.begin());
  return "";
}

std::string set_time(Spec& spec, std::string_view value) {
  const auto time = parse_duration(value);
  if (!time || *time < least_time || *time > most_time)
    return "is not a time: a number with ms, s, m or h, from 100ms to 1h, such as time=10s";
  spec.time = *time;
  return "";
}

constexpr std::array<Word, 11> words{{
    {"node", "", "check inside each node",
     [](Spec& s, std::string_view) { return s.node = true, std::string(); }},
    {"job", "", "check across the job's nodes (neither given: both, as far as the job has them)",
     [](Spec& s, std::string_view) { return s.job = true, std::string(); }},
    {"strict", "", "a failed check fails the job (the default where the site enforces)",
     [](Spec& s, std::string_view) { return s.consequence = Consequence::strict, std::string(); }},
    {"warn", "", "a failed check is only shown",
     [](Spec& s, std::string_view) { return s.consequence = Consequence::warn, std::string(); }},
    {"busbw", "N", "the job wants at least N GB/s bus bandwidth, or it fails", set_busbw},
    {"size", "SIZE", "message size to measure, such as 256M or 1G", set_size},
    {"collective", "NAME", "what to measure: all_reduce, all_gather or send_recv", set_collective},
    {"time", "TIME", "at most this long, such as 10s; the site may cap it", set_time},
    {"force", "", "measure now, do not reuse a recent verdict",
     [](Spec& s, std::string_view) { return s.force = true, std::string(); }},
    {"off", "", "no check, where the site lets users decline",
     [](Spec& s, std::string_view) { return s.off = true, std::string(); }},
    {"help", "", "print this table; nothing is submitted",
     [](Spec& s, std::string_view) { return s.help = true, std::string(); }},
}};

std::string usage(const Word& word) {
  std::string text(word.key);
  if (!word.value.empty()) text.append("=").append(word.value);
  return text;
}

// Safe to print anywhere, one column a byte: what a terminal might act on becomes '?'.
std::string plain(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

std::string quoted(std::string_view word) {
  constexpr std::size_t most_shown = 40;
  return "'" + plain(word.substr(0, most_shown)) + (word.size() > most_shown ? "..." : "") + "'";
}

std::string allowed_words() {
  std::string text = "allowed, with commas between: ";
  for (const auto& word : words) text += (&word == words.data() ? "" : ", ") + usage(word);
  return text;
}

// The word that `now` cannot stand beside, or nullptr.
const Word* contradicted(const Word& now, const std::array<bool, words.size()>& seen) {
  const auto alone = [](const Word& w) { return w.key == "off" || w.key == "help"; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!seen[i] || &words[i] == &now) continue;
    const bool two_consequences =
        (words[i].key == "strict" && now.key == "warn") || (words[i].key == "warn" && now.key == "strict");
    if (two_consequences || alone(now) || alone(words[i])) return &words[i];
  }
  return nullptr;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view units = "KMG";
  std::string unit;
  for (std::size_t i = 0; i < units.size() && bytes % kibi == 0; ++i) {
    bytes /= kibi;
    unit = units[i];
  }
  return std::to_string(bytes) + unit;
}

std::string time_text(std::chrono::milliseconds time) {
  if (time.count() % 1000 == 0) return std::to_string(time.count() / 1000) + "s";
  return std::to_string(time.count()) + "ms";
}

}  // namespace

std::string_view name(Collective c) {
  return collective_names[static_cast<std::size_t>(c)];
}
std::string_view name(Environment e) {
  return environment_names[static_cast<std::size_t>(e)];
}

std::string BadWord::line() const {
  return what + ", at column " + std::to_string(column + 1) + "; " + allowed;
}

std::string BadWord::display(std::string_view option) const {
  constexpr std::size_t context = 30;  // bytes shown before the bad part
  constexpr std::size_t most_marked = 40;
  const std::size_t start = column > context ? column - context : 0;
  const std::size_t marked = std::clamp<std::size_t>(length, 1, most_marked);
  const std::size_t end = std::min(text.size(), column + marked + 10);
  std::string before = "  --" + std::string(option) + "=" + (start > 0 ? "..." : "");
  std::string out = what + ":\n" + before + plain(std::string_view(text).substr(start, end - start)) +
                    (end < text.size() ? "..." : "") + "\n";
  out += std::string(before.size() + column - start, ' ') + std::string(marked, '^') + "\n";
  return out + allowed + "\n";
}

std::string_view normalise(const char* argument) {
  return argument == nullptr ? std::string_view{} : argument;
}

std::variant<Spec, BadWord> parse(std::string_view text) {
  Spec spec;
  if (text.empty() || text == "(null)") return spec;
  if (text.size() > most_bytes)
    return BadWord{std::string(text.substr(0, 64)) + "...", 0, 64,
                   "the text of --nccl-check is " + std::to_string(text.size()) + " bytes, at most " +
                       std::to_string(most_bytes) + " are read",
                   allowed_words()};
  std::array<bool, words.size()> seen{};
  std::size_t column = 0;
  for (;;) {
    const auto part = text.substr(column, text.find(',', column) - column);
    const auto bad = [&](std::string what, std::size_t offset = 0) {
      return BadWord{std::string(text), column + offset, part.size() - offset, std::move(what),
                     allowed_words()};
    };
    if (part.empty()) return bad("an empty word in --nccl-check");
    const auto equals = part.find('=');
    const auto key = part.substr(0, equals);
    const auto* word = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.key == key; });
    if (word == words.end()) return bad(quoted(key) + " is not a word of --nccl-check");
    const bool has_value = equals != std::string_view::npos;
    if (has_value && word->value.empty()) return bad(quoted(key) + " takes no value");
    if (!has_value && !word->value.empty()) return bad(quoted(key) + " needs a value: " + usage(*word));
    auto& already = seen[static_cast<std::size_t>(word - words.begin())];
    if (already) return bad(quoted(key) + " is given twice");
    already = true;
    if (const auto* other = contradicted(*word, seen))
      return bad(quoted(key) + " contradicts '" + std::string(other->key) + "'");
    const auto value = has_value ? part.substr(equals + 1) : std::string_view{};
    if (const auto wrong = word->set(spec, value); !wrong.empty())
      return bad(quoted(value) + " " + wrong, value.empty() ? 0 : equals + 1);
    column += part.size();
    if (column == text.size()) return spec;
    ++column;  // the comma; after the last one an empty word follows
  }
}

std::variant<Environment, BadWord> parse_environment(std::string_view text) {
  const auto at = std::find(environment_names.begin(), environment_names.end(), text);
  if (at != environment_names.end()) return static_cast<Environment>(at - environment_names.begin());
  const auto shown = text == "(null)" ? std::string_view{} : text;
  return BadWord{std::string(shown.substr(0, most_bytes)), 0, std::min(shown.size(), most_bytes),
                 quoted(shown) + " is not a word of --nccl-env", "allowed: auto, off, show"};
}

std::string canonical(const Spec& spec) {
  std::string out;
  const auto add = [&](bool given, std::string_view key, const std::string& value = "") {
    if (!given) return;
    if (!out.empty()) out += ',';
    out += key;
    if (!value.empty()) out.append("=").append(value);
  };
  add(spec.node, "node");
  add(spec.job, "job");
  add(spec.consequence == Consequence::strict, "strict");
  add(spec.consequence == Consequence::warn, "warn");
  if (spec.busbw) add(true, "busbw", format_number(*spec.busbw));
  if (spec.size) add(true, "size", size_text(*spec.size));
  if (spec.collective) add(true, "collective", std::string(name(*spec.collective)));
  if (spec.time) add(true, "time", time_text(*spec.time));
  add(spec.force, "force");
  add(spec.off, "off");
  add(spec.help, "help");
  return out;
}

std::string help() {
  std::string out =
      "--nccl-check[=WORD,...]: before the job starts, its nodes prove that they move data as fast as they "
      "should\n";
  for (const auto& word : words) {
    const auto left = usage(word);
    out += "  " + left + std::string(left.size() < 17 ? 17 - left.size() : 1, ' ') +
           std::string(word.meaning) + "\n";
  }
  return out;
}

}  // namespace nccl_check::option
