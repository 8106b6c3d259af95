#pragma once
// All pairs of n, in as few rounds of disjoint pairs as there are.
#include <utility>
#include <vector>

namespace nccl_check::engine::nccl {

using Round = std::vector<std::pair<int, int>>;  // the lower one first

// n even: n - 1 rounds; odd: n, one sits out in each (the circle method of tournaments). n < 2: none.
std::vector<Round> pairing_rounds(int n);

}  // namespace nccl_check::engine::nccl
