#pragma once
// From a made tree to a plan, and short questions about one.
#include <string>
#include <vector>

#include "../../fixtures/machines.hpp"
#include "environment/plan.hpp"

namespace nccl_check::environment {

inline node::Facts facts_of(const fixtures::MadeNode& made) {
  node::Tree tree(made.root());
  return node::read_facts(tree);
}
inline Plan plan_of(const fixtures::MadeNode& made, Situation situation = {},
                    const std::vector<Rule>& rules = {}) {
  if (!situation.nccl) situation.nccl = Version{2, 28, 9};
  return decide(facts_of(made), situation, rules);
}
// "-": not set.
inline std::string value(const Plan& plan, const std::string& variable) {
  const auto* found = plan.find(variable);
  return found == nullptr ? "-" : found->value;
}
inline std::string why_not(const Plan& plan, const std::string& what) {
  for (const auto& left : plan.left_out)
    if (left.what == what) return left.why;
  return "";
}
// "0001:00:00.0: mlx5_0 mlx5_1", a GPU a line.
inline std::vector<std::string> nearest(const node::Facts& facts) {
  std::vector<std::string> out;
  for (const auto& gpu : *facts.gpus) {
    out.push_back(gpu.pci + ":");
    for (const auto& near : gpu.nearest) out.back() += " " + near.name;
  }
  return out;
}

}  // namespace nccl_check::environment
