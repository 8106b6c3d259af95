#include "base/text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace nccl_check {
namespace {

constexpr std::size_t most_hosts = 65'536;

Error bad_hostlist(std::string_view list, const char* why) {
  return Error{fmt::format("'{}' is not a host list: {}", printable(list), why), "",
               "expected such as n[1-4],m7"};
}

struct Numbered {
  std::string_view prefix;
  std::string_view digits;
};

Numbered split_number(std::string_view name) {
  std::size_t at = name.size();
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
  return {name.substr(0, at), name.substr(at)};
}

bool parse_digits(std::string_view digits, std::uint64_t& value) {
  if (digits.empty() || digits.size() > 9) return false;
  auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return code == std::errc{} && stop == digits.data() + digits.size();
}

// One element such as rack[1-2]n[01-04]: the first bracket is opened, the rest by recursion.
Status expand_one(std::string_view element, const std::string& before, std::vector<std::string>& out,
                  std::string_view whole) {
  const auto open = element.find('[');
  if (open == std::string_view::npos) {
    if (element.find(']') != std::string_view::npos) return bad_hostlist(whole, "a ']' without its '['");
    if (before.empty() && element.empty()) return bad_hostlist(whole, "an empty name");
    if (out.size() >= most_hosts) return bad_hostlist(whole, "more than 65,536 names");
    out.push_back(before + std::string(element));
    return success();
  }
  const auto close = element.find(']', open);
  if (close == std::string_view::npos) return bad_hostlist(whole, "a '[' without its ']'");
  const std::string prefix = before + std::string(element.substr(0, open));
  for (const auto& range : split(element.substr(open + 1, close - open - 1), ',')) {
    const auto dash = range.find('-');
    const std::string_view low_text = std::string_view(range).substr(0, dash);
    const std::string_view high_text =
        dash == std::string::npos ? low_text : std::string_view(range).substr(dash + 1);
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    if (!parse_digits(low_text, low) || !parse_digits(high_text, high) || high < low)
      return bad_hostlist(whole, "a range that is none");
    if (high - low >= most_hosts) return bad_hostlist(whole, "more than 65,536 names");
    for (std::uint64_t n = low; n <= high; ++n) {
      auto inner = expand_one(element.substr(close + 1), prefix + fmt::format("{:0{}}", n, low_text.size()),
                              out, whole);
      if (!inner) return inner;
    }
  }
  return success();
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  std::size_t start = 0;
  for (;;) {
    const auto at = text.find(separator, start);
    parts.emplace_back(text.substr(start, at - start));
    if (at == std::string_view::npos) return parts;
    start = at + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (char c : text.substr(0, most)) out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? '?' : c;
  if (text.size() > most) out += "...";
  return out;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
  return out;
}

Result<std::string> from_hex(std::string_view digits) {
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  if (digits.size() % 2 != 0) return Error{"an odd number of hexadecimal digits", "", ""};
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = value(digits[i]);
    const int low = value(digits[i + 1]);
    if (high < 0 || low < 0) return Error{"not hexadecimal digits (0-9, a-f)", "", ""};
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

Result<std::vector<std::string>> expand_hostlist(std::string_view list) {
  std::vector<std::string> names;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (depth < 0 || depth > 1) return bad_hostlist(list, "brackets that do not match");
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      auto one = expand_one(list.substr(start, i - start), "", names, list);
      if (!one) return one.error();
      start = i + 1;
    }
  }
  return names;
}

std::string compress_hostlist(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size();) {
    const auto [prefix, digits] = split_number(names[i]);
    std::uint64_t first = 0;
    std::string ranges;
    std::size_t taken = i;
    std::size_t in_bracket = 0;
    if (parse_digits(digits, first)) {
      while (taken < names.size()) {  // one range after the other, as long as prefix and width stay
        const auto [p, d] = split_number(names[taken]);
        std::uint64_t low = 0;
        if (p != prefix || !parse_digits(d, low)) break;
        if (d.size() != digits.size() && (d.front() == '0' || digits.front() == '0')) break;
        std::size_t end = taken + 1;
        std::uint64_t high = low;
        for (; end < names.size(); ++end) {
          const auto [q, e] = split_number(names[end]);
          std::uint64_t next = 0;
          if (q != prefix || !parse_digits(e, next) || next != high + 1) break;
          if (e != fmt::format("{:0{}}", next, d.size())) break;
          high = next;
        }
        if (!ranges.empty()) ranges += ',';
        ranges += d;
        if (high != low) ranges += fmt::format("-{:0{}}", high, d.size());
        in_bracket += end - taken;
        taken = end;
      }
    }
    if (!out.empty()) out += ',';
    if (in_bracket > 1) {
      out += fmt::format("{}[{}]", prefix, ranges);
      i = taken;
    } else {
      out += names[i];
      ++i;
    }
  }
  return out;
}

}  // namespace nccl_check
