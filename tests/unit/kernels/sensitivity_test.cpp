// What can go wrong in moving and reducing data must show in what verify() finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data.hpp"
#include "emulation.hpp"

namespace nccl_check::kernels {
namespace {

class Sensitivity : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] bool nothing_to_tell(std::uint32_t ranks) const {
    // T / n is 0 or nearly so for averages of 8-bit integers, see pattern.hpp.
    return GetParam().reduction == Reduction::avg && size_of(GetParam().type) == 1 && ranks > 8 &&
           !emulation::floating(GetParam().type);
  }
  // The right result of all ranks, whose exactness another test proves.
  [[nodiscard]] Bytes result(std::uint32_t ranks, std::uint64_t count, std::uint64_t seed = 3,
                             std::uint64_t first = 0) const {
    Bytes bytes(count * size_of(GetParam().type));
    for (std::uint64_t i = 0; i < count; ++i) {
      const Mismatches found =
          verified({GetParam(), seed, all_ranks, ranks, first + i}, Bytes(size_of(GetParam().type)));
      set_element(GetParam().type, bytes, i, found.wrong == 0 ? 0 : found.expected);
    }
    return bytes;
  }
  [[nodiscard]] double share_wrong(std::uint32_t rank, std::uint32_t ranks, const Bytes& bytes) const {
    const double count = static_cast<double>(bytes.size() / size_of(GetParam().type));
    return static_cast<double>(verified({GetParam(), 3, rank, ranks, 0}, bytes).wrong) / count;
  }
};

constexpr std::uint64_t count = 1024;

TEST_P(Sensitivity, ReducedDataOfAnotherSeedOrPlaceIsWrong) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 64U}) {
    if (nothing_to_tell(ranks)) continue;
    ASSERT_EQ(share_wrong(all_ranks, ranks, result(ranks, count)), 0);
    EXPECT_GT(share_wrong(all_ranks, ranks, result(ranks, count, 4)), 0.4) << ranks;
    EXPECT_GT(share_wrong(all_ranks, ranks, result(ranks, count, 3, 1)), 0.4) << ranks;
    EXPECT_GT(share_wrong(all_ranks, ranks, result(ranks, count, 3, 16)), 0.4) << ranks;
    EXPECT_GT(share_wrong(all_ranks, ranks, result(ranks, count, 3, count)), 0.4) << ranks;
    EXPECT_GT(share_wrong(all_ranks, ranks, Bytes(result(ranks, count).size())), 0.4) << ranks;
  }
}

// Left out or reduced twice. A maximum doesn't change when a rank counts twice.
TEST_P(Sensitivity, EveryRanksContributionIsMissed) {
  const auto [type, reduction] = GetParam();
  for (const std::uint32_t ranks : {2U, 3U, 8U, 61U}) {
    if (nothing_to_tell(ranks)) continue;
    const std::uint64_t needed = 4 * ranks * 16 / size_of(type);
    std::vector<Bytes> of_rank;
    for (std::uint32_t r = 0; r < ranks; ++r) of_rank.push_back(filled({GetParam(), 3, r, ranks, 0}, needed));
    for (std::uint32_t absent = 0; absent < ranks; ++absent) {
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < needed && wrong == 0; ++i) {
        std::vector<std::uint64_t> values;
        for (const auto& bytes : of_rank) values.push_back(element(type, bytes, i));
        const auto whole = emulation::reduce(type, reduction, values, emulation::Order::ascending);
        values[absent] = values[(absent + 1) % ranks];
        wrong += emulation::reduce(type, reduction, values, emulation::Order::ascending) != whole ? 1 : 0;
      }
      EXPECT_GT(wrong, 0U) << "rank " << absent << " of " << ranks;
    }
  }
}

TEST_P(Sensitivity, DataThatNobodyReducedIsWrong) {
  for (const std::uint32_t ranks : {2U, 3U, 8U}) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_GT(share_wrong(all_ranks, ranks, filled({GetParam(), 3, rank, ranks, 0}, count)), 0.3) << ranks;
    }
  }
}

TEST_P(Sensitivity, CopiedDataOfAnotherRankSeedOrPlaceIsWrong) {
  const double most = size_of(GetParam().type) == 1 ? 0.9 : 0.99;
  ASSERT_EQ(share_wrong(5, 1, filled({GetParam(), 3, 5, 1, 0}, count)), 0);
  EXPECT_GT(share_wrong(5, 1, filled({GetParam(), 3, 6, 1, 0}, count)), most);
  EXPECT_GT(share_wrong(5, 1, filled({GetParam(), 4, 5, 1, 0}, count)), most);
  EXPECT_GT(share_wrong(5, 1, filled({GetParam(), 3, 5, 1, 1}, count)), most);
  EXPECT_GT(share_wrong(5, 1, filled({GetParam(), 3, 5, 1, 16}, count)), most);
  EXPECT_GT(share_wrong(5, 1, Bytes(count * size_of(GetParam().type))), most);
}

TEST_P(Sensitivity, NeighboursDiffer) {
  const auto type = GetParam().type;
  for (const std::uint32_t ranks : {1U, 2U, 8U}) {
    const Bytes bytes = ranks == 1 ? filled({GetParam(), 3, 0, 1, 0}, count) : result(ranks, count);
    std::uint64_t same = 0;
    for (std::uint64_t i = 1; i < count; ++i) {
      same += element(type, bytes, i) == element(type, bytes, i - 1) ? 1 : 0;
    }
    EXPECT_LT(same, count / 2) << ranks;
  }
}

TEST_P(Sensitivity, EveryRankContributesItsFairShare) {
  const auto [type, reduction] = GetParam();
  constexpr std::uint32_t ranks = 50;
  const std::uint64_t elements = 16 / size_of(type);
  const std::uint64_t groups = 5000;
  std::uint64_t fewest = ~0ULL;
  std::uint64_t most = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Bytes bytes = filled({GetParam(), 3, rank, ranks, 0}, groups * elements);
    std::map<std::uint64_t, std::uint64_t> seen;  // the commonest is the neutral element
    for (std::uint64_t i = 0; i < groups * elements; ++i) ++seen[element(type, bytes, i)];
    std::uint64_t neutral = 0;
    for (const auto& [bits, times] : seen) neutral = std::max(neutral, times);
    const std::uint64_t contributed = groups - neutral / elements;
    fewest = std::min(fewest, contributed);
    most = std::max(most, contributed);
  }
  EXPECT_GT(fewest, groups / ranks);  // 2 or 4 contribute at a time
  EXPECT_LT(most, fewest + fewest / 4);
}

INSTANTIATE_TEST_SUITE_P(All, Sensitivity, testing::ValuesIn(every_case()),
                         [](const auto& tested) { return name_of(tested.param); });

// 4 * ranks groups hold contributions of every rank, wherever they begin, also for many ranks.
TEST(Coverage, EveryRankContributesWithinAsManyGroupsAsDocumented) {
  const Case tested{Type::float32, Reduction::sum};
  for (const std::uint32_t ranks : {5U, 1000U, 10000U}) {
    for (const std::uint64_t first : {0ULL, 1ULL << 33U}) {
      for (std::uint32_t rank = 0; rank < ranks; rank += 1 + ranks / 7) {
        const Bytes bytes = filled({tested, 9, rank, ranks, first}, 4ULL * ranks * 4);
        EXPECT_NE(bytes, Bytes(bytes.size())) << "rank " << rank << " of " << ranks << " from " << first;
      }
    }
  }
}

}  // namespace
}  // namespace nccl_check::kernels
