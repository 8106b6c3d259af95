#pragma once
// Which nodes and jobs a rule is for, and how two rules' fields stand to each other.
#include <string>
#include <vector>

#include "environment/plan.hpp"

namespace nccl_check::environment {

bool contains(const std::vector<std::string>& list, const std::string& one);
bool part_of(const std::string& part, const std::string& whole);  // in any case of letters

// Both can fit at once.
bool overlap(const Match& a, const Match& b);
// Wherever `inner` fits, `outer` does.
bool covers(const Match& outer, const Match& inner);

// Why a rule does not fit here; empty: it fits. `unknown`: what would decide is not known.
struct Fit {
  bool fits = false;
  bool unknown = false;
  std::string why;
};
Fit fit(const Match& match, const node::Facts& facts, const Situation& situation);

}  // namespace nccl_check::environment
