#include "engine/nccl/rounds.hpp"

#include <algorithm>

namespace nccl_check::engine::nccl {

std::vector<Round> pairing_rounds(int n) {
  std::vector<Round> rounds;
  if (n < 2) return rounds;
  const int seats = n + n % 2;  // an odd one out is paired with nobody, who is number n
  const int turns = seats - 1;
  for (int turn = 0; turn < turns; ++turn) {
    Round round;
    for (int k = 0; k < seats / 2; ++k) {
      const int a = k == 0 ? seats - 1 : (turn + k) % turns;
      const int b = k == 0 ? turn : (turn + turns - k) % turns;
      if (std::max(a, b) < n) round.emplace_back(std::min(a, b), std::max(a, b));
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace nccl_check::engine::nccl
