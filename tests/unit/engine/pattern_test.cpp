#include "engine/fabric/pattern.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

namespace nccl_check::engine::fabric {
namespace {

constexpr std::uint64_t seed = 0x1234'5678'9abc'def0;

TEST(Floats, TheSumOverRanksIsWhatIsExpected) {
  for (const int ranks : {1, 2, 3, 5, 8, 100, 1020, 1021, 1022, 2500}) {
    constexpr std::uint64_t count = 64;
    std::vector<float> sum(count, 0);
    std::vector<float> one(count);
    for (int rank = 0; rank < ranks; ++rank) {
      fill_floats(one.data(), 0, count, seed, rank);
      for (std::uint64_t i = 0; i < count; ++i) sum[i] += one[i];
    }
    const auto wrong = check_sums(sum.data(), 0, count, seed, ranks);
    EXPECT_EQ(wrong.count, 0U) << ranks << " ranks: " << wrong.first;
  }
}

// Whatever order a ring adds in, no partial sum may leave the range where floats hold every integer.
TEST(Floats, AreExactUpToTheMostRanks) {
  std::vector<float> data(100'000);
  fill_floats(data.data(), 0, data.size(), seed, 12'345);
  const auto [low, high] = std::minmax_element(data.begin(), data.end());
  EXPECT_EQ(*low, 0);
  EXPECT_EQ(*high, 1020);
  EXPECT_LE(static_cast<double>(most_ranks) * 1020, 16'777'216.0);
}

TEST(Floats, DifferBySeedPositionAndRank) {
  std::vector<float> a(1000);
  std::vector<float> b(1000);
  const auto equal = [&] {
    int same = 0;
    for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1 : 0;
    return same;
  };
  fill_floats(a.data(), 0, a.size(), seed, 0);
  fill_floats(b.data(), 0, b.size(), seed + 1, 0);
  EXPECT_LT(equal(), 20);
  fill_floats(b.data(), 0, b.size(), seed, 1);
  EXPECT_EQ(equal(), 0);
  fill_floats(b.data(), 1, b.size(), seed, 0);
  EXPECT_LT(equal(), 20);
}

TEST(Floats, APieceIsTheSameAsThatPartOfTheWhole) {
  constexpr std::uint64_t first = (1U << 20U) - 5;  // across a block's end
  std::vector<float> whole(first + 10);
  fill_floats(whole.data(), 0, whole.size(), seed, 3);
  std::vector<float> part(10);
  fill_floats(part.data(), first, part.size(), seed, 3);
  EXPECT_EQ(std::memcmp(part.data(), whole.data() + first, 10 * sizeof(float)), 0);
}

TEST(Floats, EveryWrongElementIsCountedAndTheFirstIsNamed) {
  std::vector<float> data(1000);
  fill_floats(data.data(), 0, data.size(), seed, 0);
  const float expected = data[17];
  data[17] = -3;
  data[900] = std::numeric_limits<float>::quiet_NaN();
  const auto wrong = check_sums(data.data(), 0, data.size(), seed, 1);
  EXPECT_EQ(wrong.count, 2U);
  EXPECT_EQ(wrong.first, "element 17: got -3, expected " + std::to_string(static_cast<int>(expected)));
}

TEST(Words, AreCheckedBitByBit) {
  std::vector<std::uint32_t> data(5000);
  fill_words(data.data(), 100, data.size(), seed, 4);
  EXPECT_EQ(check_words(data.data(), 100, data.size(), seed, 4).count, 0U);
  EXPECT_GT(check_words(data.data(), 100, data.size(), seed, 5).count, 4990U);
  EXPECT_GT(check_words(data.data(), 101, data.size(), seed, 4).count, 4990U);
  for (const int bit : {0, 13, 31}) {
    data[4321] ^= 1U << bit;
    const auto wrong = check_words(data.data(), 100, data.size(), seed, 4, 1000);
    EXPECT_EQ(wrong.count, 1U);
    EXPECT_THAT(wrong.first, testing::StartsWith("element 5421: got "));
    data[4321] ^= 1U << bit;
  }
}

TEST(Words, UseEveryBit) {
  std::vector<std::uint32_t> data(1000);
  fill_words(data.data(), 0, data.size(), seed, 0);
  std::uint32_t ones = 0;
  std::uint32_t zeros = 0;
  for (const auto word : data) {
    ones |= word;
    zeros |= ~word;
  }
  EXPECT_EQ(ones, 0xFFFFFFFFU);
  EXPECT_EQ(zeros, 0xFFFFFFFFU);
}

}  // namespace
}  // namespace nccl_check::engine::fabric
