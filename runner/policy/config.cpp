#include "policy/config.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace nccl_check::policy {
namespace {

using verdict::Action;
using verdict::Class;
using verdict::Operation;

constexpr std::size_t most_limits = 1000;

std::string_view toml_type(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a decimal number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

// What the file says, taken apart key by key; every complaint is kept, with its line.
class Reading {
 public:
  Reading(std::string path, std::vector<Error>& errors) : path_(std::move(path)), errors_(errors) {}

  void complain(const toml::source_region& at, std::string what, std::string remedy) {
    errors_.push_back({std::move(what), fmt::format("{}:{}", path_, at.begin.line), std::move(remedy)});
  }
  void wrong(const toml::node& node, const std::string& what) {
    complain(node.source(), fmt::format("{}: {}", key_, what), "allowed: " + allowed_);
  }
  // For the complaints about the value that comes next.
  void about(std::string key, std::string allowed) {
    key_ = std::move(key);
    allowed_ = std::move(allowed);
  }

  bool text(const toml::node& node, std::string& out) {
    if (!node.is_string()) {
      wrong(node, fmt::format("is {}, not a text", toml_type(node)));
      return false;
    }
    out = node.as_string()->get();
    return true;
  }

  template <class Value>
  void word(const toml::node& node, const std::map<std::string, Value>& words, Value& out) {
    std::string given;
    if (!text(node, given)) return;
    const auto found = words.find(given);
    if (found == words.end()) {
      wrong(node, fmt::format("'{}' is not a word of it", printable(given)));
    } else {
      out = found->second;
    }
  }

  void boolean(const toml::node& node, bool& out) {
    if (!node.is_boolean()) return wrong(node, fmt::format("is {}", toml_type(node)));
    out = node.as_boolean()->get();
  }

  bool number(const toml::node& node, double least, double most, double& out) {
    double value = 0;
    if (node.is_integer()) {
      value = static_cast<double>(node.as_integer()->get());
    } else if (node.is_floating_point()) {
      value = node.as_floating_point()->get();
    } else {
      wrong(node, fmt::format("is {}, not a number", toml_type(node)));
      return false;
    }
    if (!(value >= least && value <= most)) {  // so that not-a-number is out of range
      wrong(node, fmt::format("{} is out of range", value));
      return false;
    }
    out = value;
    return true;
  }

  void integer(const toml::node& node, int least, int most, int& out) {
    if (!node.is_integer()) return wrong(node, fmt::format("is {}, not an integer", toml_type(node)));
    const auto value = node.as_integer()->get();
    if (value < least || value > most) return wrong(node, fmt::format("{} is out of range", value));
    out = static_cast<int>(value);
  }

  void duration(const toml::node& node, milliseconds least, milliseconds most, milliseconds& out) {
    std::string given;
    if (node.is_integer()) {
      given = fmt::format("{}", node.as_integer()->get());  // seconds
    } else if (!text(node, given)) {
      return;
    }
    const auto value = parse_duration(given);
    if (!value) return wrong(node, value.error().what);
    if (*value < least || *value > most)
      return wrong(node, fmt::format("'{}' is out of range", printable(given)));
    out = *value;
  }

  void size(const toml::node& node, std::uint64_t least, std::uint64_t most, std::uint64_t& out,
            bool zero = false) {
    std::string given;
    if (node.is_integer()) {
      given = fmt::format("{}", node.as_integer()->get());
    } else if (!text(node, given)) {
      return;
    }
    const auto value = parse_size(given);
    if (!value) return wrong(node, value.error().what);
    if (!(zero && *value == 0) && (*value < least || *value > most))
      return wrong(node, fmt::format("'{}' is out of range", printable(given)));
    out = *value;
  }

  void plain_text(const toml::node& node, std::size_t most, const char* characters, std::string& out) {
    std::string given;
    if (!text(node, given)) return;
    if (given.size() > most) return wrong(node, fmt::format("is longer than {} characters", most));
    if (characters != nullptr && given.find_first_not_of(characters) != std::string::npos)
      return wrong(node, fmt::format("'{}' has a character that it can't have", printable(given)));
    out = given;
  }

  void texts(const toml::node& node, std::size_t most, std::size_t longest, const char* characters,
             std::vector<std::string>& out) {
    if (!node.is_array()) return wrong(node, fmt::format("is {}, not an array of texts", toml_type(node)));
    const auto& array = *node.as_array();
    if (array.size() > most) return wrong(node, fmt::format("has more than {} entries", most));
    std::vector<std::string> all;
    const std::size_t before = errors_.size();
    for (const auto& entry : array) {
      std::string one;
      plain_text(entry, longest, characters, one);
      if (errors_.size() == before && one.empty()) wrong(entry, "has an empty entry");
      all.push_back(one);
    }
    if (errors_.size() == before) out = all;
  }

 private:
  std::string path_;
  std::vector<Error>& errors_;
  std::string key_;
  std::string allowed_;
};

constexpr const char* name_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:;@+";

// Every key, once: its name, what it takes, and how it is read.
struct Key {
  const char* name;
  const char* allowed;
  std::function<void(Reading&, const toml::node&, Config&)> read;
};
struct Section {
  const char* name;  // "": the top
  std::vector<Key> keys;
};

const std::map<std::string, Action> node_actions{{"allow", Action::allow},
                                                 {"warn", Action::warn},
                                                 {"fail-job", Action::fail_job},
                                                 {"strike", Action::strike},
                                                 {"drain", Action::drain}};
const std::map<std::string, Action> job_actions{
    {"allow", Action::allow}, {"warn", Action::warn}, {"fail-job", Action::fail_job}};

Key action_key(const char* name, Class cls, bool blames_a_node) {
  return {
      name,
      blames_a_node ? "allow, warn, fail-job, strike, drain" : "allow, warn, fail-job (no node is to blame)",
      [=](Reading& r, const toml::node& n, Config& c) {
        r.word(n, blames_a_node ? node_actions : job_actions, c.actions[static_cast<std::size_t>(cls)]);
      }};
}

void read_scopes(Reading& r, const toml::node& node, Config& config) {
  std::vector<std::string> words;
  r.texts(node, 2, 8, nullptr, words);
  Scopes scopes{false, false};
  for (const auto& word : words) {
    if (word == "node") {
      scopes.node = true;
    } else if (word == "job") {
      scopes.job = true;
    } else {
      return r.wrong(node, fmt::format("'{}' is not a scope", printable(word)));
    }
  }
  if (!scopes.node && !scopes.job) return r.wrong(node, "names no scope");
  config.scopes = scopes;
}

void read_ports(Reading& r, const toml::node& node, Config& config) {
  std::string given;
  if (!r.text(node, given)) return;
  const auto ends = split(given, '-');
  const auto port = [](const std::string& digits) {
    unsigned value = 0;
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc{} && stop == digits.data() + digits.size() ? value : 0U;
  };
  const unsigned first = ends.size() == 2 ? port(ends[0]) : 0;
  const unsigned last = ends.size() == 2 ? port(ends[1]) : 0;
  if (first < 1024 || last > 65535 || last < first + 15)
    return r.wrong(node, fmt::format("'{}' is not a range of ports", printable(given)));
  config.ports = {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

void read_path(Reading& r, const toml::node& node, std::string& into) {
  std::string given;
  r.plain_text(node, 4096, nullptr, given);
  if (!given.empty() && (given.front() != '/' || printable(given, given.size()) != given))
    return r.wrong(node, fmt::format("'{}' is not an absolute path", printable(given)));
  into = given;
}

template <std::string Config::*member>
Key library_key(const char* name) {
  return {name, "an absolute path, \"\" for the loader's own search",
          [](Reading& r, const toml::node& n, Config& c) { read_path(r, n, c.*member); }};
}

void read_user(Reading& r, const toml::node& node, Config& config) {
  std::string given;
  r.plain_text(node, 32, name_characters, given);
  if (given.empty() || given == "root")
    return r.wrong(node, fmt::format("'{}' can't measure", printable(given)));
  config.user = given;
}

const std::vector<Section>& sections() {
  using namespace std::chrono_literals;
  static const std::vector<Section> all{
      {"",
       {{"mode", "observe, enforce",
         [](Reading& r, const toml::node& n, Config& c) {
           r.word<Mode>(n, {{"observe", Mode::observe}, {"enforce", Mode::enforce}}, c.mode);
         }},
        {"when", "requested, always, never",
         [](Reading& r, const toml::node& n, Config& c) {
           r.word<When>(n, {{"requested", When::requested}, {"always", When::always}, {"never", When::never}},
                        c.when);
         }},
        {"partitions", "an array of partitions' names, [] for all",
         [](Reading& r, const toml::node& n, Config& c) {
           r.texts(n, 1000, 256, name_characters, c.partitions);
         }},
        {"scopes", "an array of node, job", read_scopes},
        {"deadline", "1s to 10m",
         [](Reading& r, const toml::node& n, Config& c) { r.duration(n, 1s, 10min, c.deadline); }},
        {"join", "100ms up to the deadline",
         [](Reading& r, const toml::node& n, Config& c) { r.duration(n, 100ms, 10min, c.join); }},
        {"users_may_decline", "true, false",
         [](Reading& r, const toml::node& n, Config& c) { r.boolean(n, c.users_may_decline); }},
        {"reuse", "0 (never) to 30d",
         [](Reading& r, const toml::node& n, Config& c) { r.duration(n, 0s, 720h, c.reuse); }},
        {"ports", "FIRST-LAST, 16 ports at least, from 1024 to 65535", read_ports},
        {"no_answer", "fail-prolog, allow",
         [](Reading& r, const toml::node& n, Config& c) {
           r.word<NoAnswer>(n, {{"fail-prolog", NoAnswer::fail_prolog}, {"allow", NoAnswer::allow}},
                            c.no_answer);
         }}}},
      {"measure",
       {{"engine", "auto, fabric, nccl",
         [](Reading& r, const toml::node& n, Config& c) {
           r.word<EngineChoice>(n,
                                {{"auto", EngineChoice::automatic},
                                 {"fabric", EngineChoice::fabric},
                                 {"nccl", EngineChoice::nccl}},
                                c.engine);
         }},
        {"size", "1K to 64G",
         [](Reading& r, const toml::node& n, Config& c) { r.size(n, 1U << 10U, 64ULL << 30U, c.size); }},
        {"collective", "all_reduce, all_gather, send_recv",
         [](Reading& r, const toml::node& n, Config& c) {
           r.word<Operation>(n,
                             {{"all_reduce", Operation::all_reduce},
                              {"all_gather", Operation::all_gather},
                              {"send_recv", Operation::send_recv}},
                             c.collective);
         }}}},
      {"fabric",
       {{"provider", "a libfabric provider's name, \"\" for the best found",
         [](Reading& r, const toml::node& n, Config& c) {
           r.plain_text(n, 64, name_characters, c.provider);
         }},
        {"interfaces", "an array of at most 64 interfaces' names, [] for those found",
         [](Reading& r, const toml::node& n, Config& c) {
           r.texts(n, 64, 64, name_characters, c.interfaces);
         }},
        library_key<&Config::library>("library")}},
      {"nccl",
       {library_key<&Config::nccl_library>("library"), library_key<&Config::cuda_library>("cuda_library"),
        library_key<&Config::nvml_library>("nvml_library")}},
      {"worker",
       {{"user", "a system user's name, not root", read_user},
        {"memory", "0 (no cap) or 256M to 64T",
         [](Reading& r, const toml::node& n, Config& c) {
           r.size(n, 256ULL << 20U, 64ULL << 40U, c.memory, true);
         }}}},
      {"actions",
       {action_key("slow", Class::slow, true), action_key("hung", Class::hung, true),
        action_key("corrupt", Class::corrupt, true), action_key("broken", Class::broken, true),
        action_key("mismatched", Class::mismatched, false), action_key("untested", Class::untested, false)}},
      {"strikes",
       {{"count", "1 to 100",
         [](Reading& r, const toml::node& n, Config& c) { r.integer(n, 1, 100, c.strikes); }},
        {"window", "1m to 90d",
         [](Reading& r, const toml::node& n, Config& c) { r.duration(n, 1min, 2160h, c.strike_window); }}}},
      {"breaker",
       {{"nodes", "0 (no bound) to 65536",
         [](Reading& r, const toml::node& n, Config& c) { r.integer(n, 0, 65536, c.breaker_nodes); }},
        {"percent", "0 (no bound) to 100",
         [](Reading& r, const toml::node& n, Config& c) { r.number(n, 0, 100, c.breaker_percent); }},
        {"window", "1m to 90d",
         [](Reading& r, const toml::node& n, Config& c) { r.duration(n, 1min, 2160h, c.breaker_window); }}}}};
  return all;
}

std::string listed(const std::vector<Key>& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.emplace_back(key.name);
  return join(names, ", ");
}

void read_section(Reading& reading, const Section& section, const toml::table& table, Config& config) {
  const bool top = section.name[0] == '\0';
  for (const auto& [given, node] : table) {
    const std::string name(given.str());
    if (top && node.is_table()) continue;
    if (top && name == "limit") continue;
    const auto key =
        std::find_if(section.keys.begin(), section.keys.end(), [&](const Key& k) { return name == k.name; });
    if (key == section.keys.end()) {
      const std::string where = top ? "at the top" : fmt::format("in [{}]", section.name);
      reading.complain(given.source(), fmt::format("unknown key '{}' {}", printable(name), where),
                       "allowed there: " + listed(section.keys));
      continue;
    }
    reading.about(top ? name : fmt::format("{}.{}", section.name, name), key->allowed);
    key->read(reading, node, config);
  }
}

void read_limit(Reading& reading, const toml::table& table, Config& config) {
  LimitRule rule;
  rule.line = static_cast<int>(table.source().begin.line);
  bool has_operation = false;
  bool has_busbw = false;
  for (const auto& [given, node] : table) {
    const std::string name(given.str());
    if (name == "nodes") {
      reading.about("limit.nodes", "a host list such as gpu[001-128]");
      std::string list;
      if (!reading.text(node, list)) continue;
      const auto names = expand_hostlist(list);
      if (!names) {
        reading.wrong(node, names.error().what);
      } else {
        rule.nodes = *names;
        std::sort(rule.nodes.begin(), rule.nodes.end());
      }
    } else if (name == "partition") {
      reading.about("limit.partition", "a partition's name");
      reading.plain_text(node, 256, name_characters, rule.partition);
    } else if (name == "gpus") {
      reading.about("limit.gpus", "1 to 1024");
      reading.integer(node, 1, 1024, rule.gpus);
    } else if (name == "operation") {
      reading.about("limit.operation",
                    "all_reduce, all_gather, send_recv, memory_copy, device_memory, peer_copy, to_device, "
                    "from_device");
      reading.word<Operation>(node,
                              {{"all_reduce", Operation::all_reduce},
                               {"all_gather", Operation::all_gather},
                               {"send_recv", Operation::send_recv},
                               {"memory_copy", Operation::memory_copy},
                               {"device_memory", Operation::device_memory},
                               {"peer_copy", Operation::peer_copy},
                               {"to_device", Operation::to_device},
                               {"from_device", Operation::from_device}},
                              rule.operation);
      has_operation = true;
    } else if (name == "busbw") {
      reading.about("limit.busbw", "GB/s, 0.001 to 100000");
      reading.number(node, 0.001, 100'000, rule.busbw);
      has_busbw = true;
    } else if (name == "from_size") {
      reading.about("limit.from_size", "1K to 64G");
      reading.size(node, 1U << 10U, 64ULL << 30U, rule.from_size);
    } else if (name == "note") {
      reading.about("limit.note", "at most 120 characters of one line");
      reading.plain_text(node, 120, nullptr, rule.note);
      if (printable(rule.note, rule.note.size()) != rule.note)
        reading.wrong(node, "has a character that can't be shown");
    } else {
      reading.complain(given.source(), fmt::format("unknown key '{}' in [[limit]]", printable(name)),
                       "allowed there: nodes, partition, gpus, operation, busbw, from_size, note");
    }
  }
  for (const auto& [have, key] : {std::pair(has_operation, "operation"), std::pair(has_busbw, "busbw")})
    if (!have)
      reading.complain(table.source(), fmt::format("a [[limit]] without '{}'", key),
                       "a limit is for one operation, in GB/s");
  config.limits.push_back(std::move(rule));
}

void read_limits(Reading& reading, const toml::node& node, Config& config) {
  const auto* array = node.as_array();
  if (array == nullptr || !array->is_homogeneous<toml::table>()) {
    return reading.complain(node.source(), "'limit' is not a list of tables", "write [[limit]] before each");
  }
  if (array->size() > most_limits)
    return reading.complain(node.source(), fmt::format("more than {} limits", most_limits), "");
  for (const auto& entry : *array) read_limit(reading, *entry.as_table(), config);
}

}  // namespace

std::string_view name(Mode m) {
  return m == Mode::observe ? "observe" : "enforce";
}
std::string_view name(When w) {
  return w == When::requested ? "requested" : (w == When::always ? "always" : "never");
}
std::string_view name(NoAnswer n) {
  return n == NoAnswer::fail_prolog ? "fail-prolog" : "allow";
}
std::string_view name(EngineChoice e) {
  return e == EngineChoice::automatic ? "auto" : (e == EngineChoice::fabric ? "fabric" : "nccl");
}

Loaded parse_config(std::string_view text, const std::string& path) {
  Loaded loaded;
  Reading reading(path, loaded.errors);
  Config config;
  try {
    const toml::table table = toml::parse(text);
    for (const auto& section : sections()) {
      if (section.name[0] == '\0') {
        read_section(reading, section, table, config);
      } else if (const auto* found = table.get(section.name); found != nullptr && found->is_table()) {
        read_section(reading, section, *found->as_table(), config);
      }
    }
    std::vector<std::string> names{"[limit]"};
    for (const auto& section : sections())
      if (section.name[0] != '\0') names.push_back(fmt::format("[{}]", section.name));
    for (const auto& [given, node] : table) {
      const std::string key(given.str());
      if (key == "limit") {
        read_limits(reading, node, config);
      } else if (node.is_table() && std::find(names.begin(), names.end(), "[" + key + "]") == names.end()) {
        reading.complain(given.source(), fmt::format("unknown section [{}]", printable(key)),
                         "allowed: " + join(names, ", "));
      }
    }
    const auto place = [&](const char* key) {
      const auto* node = table.get(key);
      return node != nullptr ? node->source() : table.source();
    };
    for (auto& limit : config.limits)
      if (limit.from_size == 0) limit.from_size = config.size;
    if (config.join > config.deadline)
      reading.complain(place("join"), "join is longer than the deadline",
                       "allowed: 100ms up to the deadline");
  } catch (const toml::parse_error& error) {
    reading.complain(error.source(), fmt::format("is not TOML: {}", printable(error.description())),
                     "nothing of the file is used until it is");
  }
  // A reader wants them in the file's order, whatever order they were found in.
  std::stable_sort(loaded.errors.begin(), loaded.errors.end(), [](const Error& a, const Error& b) {
    const auto line = [](const Error& e) {
      const auto number = parse_number(e.where.substr(e.where.rfind(':') + 1));
      return number ? *number : 0.0;
    };
    return line(a) < line(b);
  });
  if (loaded.errors.empty()) loaded.config = std::move(config);
  return loaded;
}

Loaded load_config(const std::string& path) {
  const auto text = read_file(path, most_config_bytes, Trust::root_only);
  if (!text) return {std::nullopt, {text.error()}};
  return parse_config(*text, path);
}

const LimitRule* find_limit(const Config& config, const std::vector<std::string>& nodes,
                            const std::string& partition, verdict::Operation operation, std::uint64_t bytes,
                            int gpus) {
  for (const auto& rule : config.limits) {
    if (rule.operation != operation || bytes < rule.from_size) continue;
    if (!rule.partition.empty() && rule.partition != partition) continue;
    if (rule.gpus != 0 && rule.gpus != gpus) continue;
    const bool all =
        rule.nodes.empty() || std::all_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
          return std::binary_search(rule.nodes.begin(), rule.nodes.end(), node);
        });
    if (all) return &rule;
  }
  return nullptr;
}

}  // namespace nccl_check::policy
