#include "environment/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "environment/match.hpp"

namespace nccl_check::environment {
namespace {

// What a rule does to a variable, for comparing.
struct Effect {
  Change change;
  std::string value;
  bool operator==(const Effect&) const = default;
};

std::map<std::string, Effect> effects(const Rule& rule) {
  std::map<std::string, Effect> out;
  for (const auto& [variable, value] : rule.set) out[variable] = {Change::set, value};
  for (const auto& variable : rule.unset) out[variable] = {Change::unset, ""};
  return out;
}

std::string words(const std::string& variable, const Effect& effect) {
  return effect.change == Change::unset ? fmt::format("unsets {}", variable)
                                        : fmt::format("sets {}={}", variable, printable(effect.value));
}

void check_alone(const Rule& rule, const Known& known, std::vector<Error>& errors) {
  const auto& match = rule.match;
  if (rule.set.empty() && rule.prepend.empty() && rule.unset.empty())
    errors.push_back({"the rule does nothing", rule.source, "give it set, prepend or unset"});
  if (match.nccl_from && match.nccl_before && *match.nccl_from >= *match.nccl_before)
    errors.push_back({fmt::format("the rule fits nothing: no NCCL is at least {} and older than {}",
                                  match.nccl_from->text(), match.nccl_before->text()),
                      rule.source, "turn them round"});
  const auto missing = [&](const char* what, const std::string& given, const std::string& there) {
    errors.push_back({fmt::format("the rule fits nothing: there is no {} '{}'", what, printable(given)),
                      rule.source, "there are: " + there});
  };
  if (!match.partition.empty() && !known.partitions.empty() && !contains(known.partitions, match.partition))
    missing("partition", match.partition, join(known.partitions, ", "));
  const auto is_known = [&](const std::string& node) { return contains(known.nodes, node); };
  if (!match.nodes.empty() && !known.nodes.empty() &&
      std::none_of(match.nodes.begin(), match.nodes.end(), is_known))
    missing("node", compress_hostlist(match.nodes), compress_hostlist(known.nodes));
  const auto fits = [&](const std::string& model) { return part_of(match.gpu, model); };
  if (!match.gpu.empty() && !known.gpus.empty() && std::none_of(known.gpus.begin(), known.gpus.end(), fits))
    missing("GPU", match.gpu, join(known.gpus, ", "));
  for (const auto& [variable, value] : rule.set)
    if (contains(rule.unset, variable) || rule.prepend.count(variable) != 0)
      errors.push_back({fmt::format("the rule contradicts itself about {}", variable), rule.source,
                        "set, prepend or unset it"});
  std::vector<std::string> named = rule.unset;
  for (const auto* list : {&rule.set, &rule.prepend})
    for (const auto& [variable, value] : *list) {
      named.push_back(variable);
      if (value.find_first_of("\n\r") != value.npos || value.find('\0') != value.npos)
        errors.push_back({fmt::format("the value of {} has more than a line", variable), rule.source, ""});
    }
  for (const auto& variable : named)
    if (!valid_name(variable))
      errors.push_back({fmt::format("'{}' is no name of a variable", printable(variable)), rule.source,
                        "letters, digits and _"});
}

void check_pair(const Rule& first, const Rule& second, std::vector<Error>& errors) {
  if (!overlap(first.match, second.match)) return;
  const bool exception_first = covers(second.match, first.match) && !covers(first.match, second.match);
  const auto earlier = effects(first), later = effects(second);
  for (const auto& [variable, effect] : later) {
    const auto other = earlier.find(variable);
    if (other == earlier.end() || other->second == effect || exception_first) continue;
    const bool never = covers(first.match, second.match);
    errors.push_back({fmt::format("the rule {}, but the one at {} comes first and {}{}",
                                  words(variable, effect), first.source, words(variable, other->second),
                                  never ? ": this one never takes effect" : " where both fit"),
                      second.source, "put the exception first, or narrow one of them"});
  }
}

}  // namespace

const char* name(Change change) {
  constexpr std::array<const char*, 3> names{"set", "unset", "prepend"};
  return names.at(static_cast<std::size_t>(change));
}

bool valid_name(const std::string& variable) {
  return !variable.empty() && std::isdigit(static_cast<unsigned char>(variable.front())) == 0 &&
         std::all_of(variable.begin(), variable.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

std::vector<Error> check_rules(const std::vector<Rule>& rules, const Known& known) {
  std::vector<Error> errors;
  for (const auto& rule : rules) check_alone(rule, known, errors);
  for (std::size_t second = 1; second < rules.size(); ++second)
    for (std::size_t first = 0; first < second; ++first) check_pair(rules[first], rules[second], errors);
  return errors;
}

}  // namespace nccl_check::environment
