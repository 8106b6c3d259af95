#include "environment/in_force.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace nccl_check::environment {
namespace {

constexpr Version reads_conf_file{2, 23, 0};

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// What a person meant otherwise than NCCL takes it; empty: nothing.
std::string objection(const std::string& name, const std::string& value) {
  const auto shown = printable(name, 60);
  if (name.starts_with("export ") || name.starts_with("set "))
    return fmt::format(
        "sets a variable called '{}': NCCL's file is no shell script, leave the first word out", shown);
  if (name.empty()) return "has no name before the =";
  if (!valid_name(name)) return fmt::format("sets a variable called '{}', which nobody reads", shown);
  if (value.empty()) return "";
  if (value.back() == '\r') return "ends in a carriage return, which belongs to the value";
  if (blank(value.front()) || blank(value.back())) return "has blanks around the value, which belong to it";
  if (value.front() == '"' || value.front() == '\'') return "has quotes, which belong to the value";
  if (value.find(" #") != value.npos) return "has a comment behind the value, which belongs to it";
  return "";
}

void take(InForce& out, const std::string& variable, const std::string& value, const std::string& source,
          bool users) {
  const auto [at, is_new] = out.values.try_emplace(variable, Value{variable, value, source, users, {}});
  if (!is_new && at->second.source != source)
    at->second.hidden.push_back(fmt::format("{}: {}", source, printable(value)));
}

void take_file(InForce& out, const ConfFile& file) {
  int number = 0;
  for (const auto& line : split(file.text, '\n')) {
    const auto source = fmt::format("{}:{}", file.path, ++number);
    if (line.starts_with('#') || trim(line).empty()) continue;
    const auto equals = line.find('=');
    if (equals == line.npos) {
      // A comment that does not start in the first column comes to the same.
      if (!trim(line).starts_with("#"))
        out.bad_lines.push_back({source, fmt::format("'{}' has no =: NCCL ignores it", printable(line, 60))});
      continue;
    }
    const auto name = line.substr(0, equals), value = line.substr(equals + 1);
    if (const auto what = objection(name, value); !what.empty())
      out.bad_lines.push_back({source, fmt::format("'{}' {}", printable(line, 60), what)});
    if (!name.empty()) take(out, name, value, source, file.users);
  }
}

}  // namespace

std::map<std::string, std::string> of_interest(const char* const* entries) {
  constexpr std::array<std::string_view, 4> starts{"NCCL_", "FI_", "OFI_NCCL_", "RDMAV_"};
  std::map<std::string, std::string> out;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string entry = *entries;
    const auto equals = entry.find('=');
    if (equals == entry.npos) continue;
    const auto name = entry.substr(0, equals);
    if (std::any_of(starts.begin(), starts.end(), [&](auto start) { return name.starts_with(start); }))
      out.emplace(name, entry.substr(equals + 1));
  }
  return out;
}

std::vector<ConfFile> conf_files(node::Tree& tree, const std::map<std::string, std::string>& environment,
                                 const std::string& home, const std::optional<Version>& nccl,
                                 std::vector<BadLine>& bad) {
  std::vector<ConfFile> out;
  const auto named = environment.find("NCCL_CONF_FILE");
  // An unknown version is taken for a new one.
  const bool reads_it = !nccl || *nccl >= reads_conf_file;
  if (named != environment.end() && reads_it) {
    auto text = tree.text(named->second);
    if (text)
      out.push_back({named->second, std::move(*text), true});
    else
      bad.push_back({"NCCL_CONF_FILE", fmt::format("{} can't be read", printable(named->second))});
  } else if (!home.empty()) {
    const auto path = home + "/.nccl.conf";
    if (auto text = tree.text(path)) out.push_back({path, std::move(*text), true});
  }
  if (auto text = tree.text("/etc/nccl.conf")) out.push_back({"/etc/nccl.conf", std::move(*text), false});
  return out;
}

InForce merge(const std::map<std::string, std::string>& environment, const std::vector<ConfFile>& files) {
  InForce out;
  for (const auto& [variable, value] : environment) take(out, variable, value, "environment", true);
  for (const auto& file : files) take_file(out, file);
  return out;
}

void keep_what_is_set(const InForce& in_force, Plan& plan) {
  std::erase_if(plan.decisions, [&](const Decision& d) {
    const auto found = in_force.values.find(d.variable);
    if (found == in_force.values.end() || d.change == Change::prepend) return false;
    const auto& is = found->second;
    if (d.site && !is.users) return false;
    const bool same = d.change == Change::set && d.value == is.value;
    plan.left_out.push_back(
        {d.variable,
         same ? fmt::format("{} has the same already", is.source)
              : fmt::format("kept as {} has it: {}; it would be {} ({})", is.source, printable(is.value),
                            d.change == Change::unset ? "unset" : d.value, d.why)});
    return true;
  });
}

}  // namespace nccl_check::environment
