// Reducing what fill() makes, with each type's own rounding after every step and in several orders, must give
// what verify() expects, to the bit.
#include <gtest/gtest.h>

#include "data.hpp"
#include "emulation.hpp"

namespace nccl_check::kernels {
namespace {

class Exactness : public testing::TestWithParam<Case> {};

Bytes reduced(Case tested, std::uint32_t ranks, std::uint64_t count, emulation::Order order) {
  std::vector<Bytes> of_rank;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    of_rank.push_back(filled({tested, 7, rank, ranks, 5}, count));
  Bytes result(of_rank[0].size());
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<std::uint64_t> values;
    for (const auto& bytes : of_rank) values.push_back(element(tested.type, bytes, i));
    set_element(tested.type, result, i, emulation::reduce(tested.type, tested.reduction, values, order));
  }
  return result;
}

TEST_P(Exactness, EveryOrderGivesWhatIsExpected) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 72U, 1000U}) {
    const std::uint64_t count = ranks > 100 ? 64 : 300;
    for (const auto order : {emulation::Order::ascending, emulation::Order::descending,
                             emulation::Order::tree, emulation::Order::rotated}) {
      const Bytes result = reduced(GetParam(), ranks, count, order);
      const Mismatches found = verified({GetParam(), 7, all_ranks, ranks, 5}, result);
      ASSERT_EQ(found.wrong, 0U) << ranks << " ranks, order " << static_cast<int>(order) << ", position "
                                 << found.first_wrong - 1 << ": " << value_of(GetParam().type, found.got)
                                 << " where " << value_of(GetParam().type, found.expected) << " is expected";
    }
  }
}

// An average that is multiplied only after adding, as some of NCCL's kernels do, is the same to the bit.
TEST_P(Exactness, AveragesAgreeInBothOrders) {
  const auto [type, reduction] = GetParam();
  if (reduction != Reduction::avg || !emulation::floating(type)) return;
  for (const std::uint32_t ranks : {2U, 3U, 7U, 72U}) {
    const Bytes sums = reduced({type, Reduction::avg}, ranks, 64, emulation::Order::tree);
    for (std::uint64_t i = 0; i < 64; ++i) {
      std::vector<std::uint64_t> values;
      double sum = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        sum += emulation::to_double(type, element(type, filled({GetParam(), 7, rank, ranks, 5 + i}, 1), 0));
      }
      const double late = sum * emulation::reciprocal(type, ranks);
      ASSERT_EQ(element(type, sums, i), emulation::from_double(type, late))
          << ranks << " ranks, element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Exactness, testing::ValuesIn(every_case()),
                         [](const auto& tested) { return name_of(tested.param); });

// The emulation itself, against known values.
TEST(Emulation, RoundsToNearestEven) {
  using namespace emulation;
  EXPECT_EQ(from_double(Type::float8_e4m3, 17), from_double(Type::float8_e4m3, 16));
  EXPECT_EQ(from_double(Type::float8_e4m3, 19), from_double(Type::float8_e4m3, 20));
  EXPECT_EQ(from_double(Type::float8_e4m3, 448), 0x7eU);
  EXPECT_EQ(from_double(Type::float8_e5m2, -1), 0xbcU);
  EXPECT_EQ(from_double(Type::float8_e5m2, 9), from_double(Type::float8_e5m2, 8));
  EXPECT_EQ(from_double(Type::float16, 65504), 0x7bffU);
  EXPECT_EQ(from_double(Type::float16, 1.0 / 3), 0x3555U);
  EXPECT_EQ(from_double(Type::bfloat16, 257), from_double(Type::bfloat16, 256));
  EXPECT_EQ(from_double(Type::bfloat16, 1), 0x3f80U);
  EXPECT_NE(combine(Type::float8_e5m2, Reduction::sum, from_double(Type::float8_e5m2, 8),
                    from_double(Type::float8_e5m2, 1)),
            from_double(Type::float8_e5m2, 10));
}

}  // namespace
}  // namespace nccl_check::kernels
