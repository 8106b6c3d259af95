#include "engine/nccl/rounds.hpp"

#include <gtest/gtest.h>

#include <set>

namespace nccl_check::engine::nccl {
namespace {

TEST(Rounds, EveryPairOnceInDisjointRounds) {
  EXPECT_TRUE(pairing_rounds(0).empty());
  EXPECT_TRUE(pairing_rounds(1).empty());
  for (int n = 2; n <= 17; ++n) {
    const auto rounds = pairing_rounds(n);
    EXPECT_EQ(rounds.size(), static_cast<std::size_t>(n % 2 == 0 ? n - 1 : n));
    std::set<std::pair<int, int>> seen;
    for (const auto& round : rounds) {
      EXPECT_EQ(round.size(), static_cast<std::size_t>(n / 2)) << n;
      std::set<int> in_round;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_LT(b, n);
        EXPECT_GE(a, 0);
        EXPECT_TRUE(in_round.insert(a).second && in_round.insert(b).second) << n;
        EXPECT_TRUE(seen.emplace(a, b).second) << n << ": " << a << " " << b;
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(n * (n - 1) / 2));
  }
}

}  // namespace
}  // namespace nccl_check::engine::nccl
