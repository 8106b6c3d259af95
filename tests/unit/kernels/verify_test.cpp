// Counting, the lowest position, pieces, odd addresses, and the other host functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "data.hpp"
#include "kernels/groups.hpp"
#include "kernels/image.hpp"

namespace nccl_check::kernels {
namespace {

class Verify : public testing::TestWithParam<Case> {};

TEST_P(Verify, FindsAFlippedBitAnywhere) {
  const Type type = GetParam().type;
  for (const std::uint64_t count : {1U, 2U, 7U, 16U, 33U, 1001U}) {
    for (const std::uint32_t ranks : {1U, 8U}) {
      const Data data{GetParam(), 11, ranks - 1, ranks, 3};
      const Bytes right = filled(data, count);
      for (const std::uint64_t index : {std::uint64_t{0}, count / 2, count - 1}) {
        Bytes wrong = right;
        flip({wrong.data(), index * size_of(type)});
        const Mismatches found = verified(data, wrong);
        EXPECT_EQ(found.wrong, 1U);
        EXPECT_EQ(found.first_wrong, 3 + index + 1);
        EXPECT_EQ(found.got, element(type, wrong, index));
        EXPECT_EQ(found.expected, element(type, right, index));
      }
    }
  }
}

TEST_P(Verify, CountsExactlyAndReportsTheLowest) {
  const Type type = GetParam().type;
  const Data data{GetParam(), 11, 2, 4, 100};
  Bytes bytes = filled(data, 1000);
  for (std::uint64_t index = 37; index < 1000; index += 13) bytes[(index + 1) * size_of(type) - 1] ^= 0x80U;
  const Mismatches found = verified(data, bytes);
  EXPECT_EQ(found.wrong, 75U);
  EXPECT_EQ(found.first_wrong, 100U + 37 + 1);
}

TEST_P(Verify, SeveralCallsShareOneCount) {
  const Type type = GetParam().type;
  Bytes bytes = filled({GetParam(), 11, 1, 3, 0}, 400);
  for (const std::uint64_t index : {10U, 150U, 390U}) flip({bytes.data(), index * size_of(type)});
  Mismatches found{};
  for (const std::uint64_t first : {300U, 0U, 100U, 200U}) {
    verify({bytes.data() + first * size_of(type), 100, first, 11, type, GetParam().reduction, 1, 3, &found});
  }
  EXPECT_EQ(found.wrong, 3U);
  EXPECT_EQ(found.first_wrong, 11U);
  EXPECT_EQ(found.got, element(type, bytes, 10));
}

TEST_P(Verify, PiecesAreTheWholeAtAnyAddress) {
  const std::size_t size = size_of(GetParam().type);
  for (const std::uint32_t ranks : {1U, 3U}) {
    const Bytes whole = filled({GetParam(), 5, 2 % ranks, ranks, 1000}, 500);
    for (const std::size_t offset : {0U, 1U, 3U, 8U}) {
      Bytes pieces(whole.size() + 32, 0xa5);
      for (std::uint64_t first = 0, length = 1; first < 500; first += length, length = length % 17 + 1) {
        const std::uint64_t count = std::min<std::uint64_t>(length, 500 - first);
        fill({pieces.data() + offset + first * size, count, 1000 + first, 5, GetParam().type,
              GetParam().reduction, 2 % ranks, ranks});
      }
      EXPECT_TRUE(
          std::equal(whole.begin(), whole.end(), pieces.begin() + static_cast<std::ptrdiff_t>(offset)));
      for (std::size_t i = 0; i < offset; ++i) EXPECT_EQ(pieces[i], 0xa5);
      for (std::size_t i = offset + whole.size(); i < pieces.size(); ++i) EXPECT_EQ(pieces[i], 0xa5);
    }
  }
}

// The definition for one element, apart from the one for 16 bytes at a time.
TEST_P(Verify, FollowsThePatternsDefinition) {
  const Type type = GetParam().type;
  for (const std::uint32_t ranks : {1U, 2U, 5U}) {
    for (const std::uint32_t rank : {0U, 1U, all_ranks}) {
      Bytes bytes(200 * size_of(type));
      for (std::uint64_t position = 0; position < 200; ++position) {
        const std::uint64_t bits = rank == all_ranks
                                       ? expected(type, GetParam().reduction, 8, position, ranks)
                                       : value(type, GetParam().reduction, 8, position, rank, ranks);
        set_element(type, bytes, position, bits);
      }
      EXPECT_EQ(verified({GetParam(), 8, rank, ranks, 0}, bytes).wrong, 0U) << ranks << " ranks, " << rank;
    }
  }
}

TEST_P(Verify, NothingIsNothing) {
  Mismatches found{};
  fill({nullptr, 0, 3, 1, GetParam().type, GetParam().reduction, 0, 2});
  verify({nullptr, 0, 3, 1, GetParam().type, GetParam().reduction, all_ranks, 2, &found});
  EXPECT_EQ(found.wrong, 0U);
  EXPECT_EQ(found.first_wrong, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, Verify, testing::ValuesIn(every_case()),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(Host, EveryKernelIsFoundWithItsArgumentsSize) {
  for (const auto& [name, bytes] : std::initializer_list<std::pair<const char*, std::size_t>>{
           {"nccl_check_fill", sizeof(FillArguments)},
           {"nccl_check_verify", sizeof(VerifyArguments)},
           {"nccl_check_copy", sizeof(StreamArguments)},
           {"nccl_check_triad", sizeof(StreamArguments)},
           {"nccl_check_latch", sizeof(LatchArguments)},
           {"nccl_check_flip", sizeof(FlipArguments)}}) {
    const Kernel* kernel = find_kernel(name);
    ASSERT_NE(kernel, nullptr) << name;
    EXPECT_EQ(kernel->argument_bytes, bytes) << name;
  }
  EXPECT_EQ(find_kernel("nccl_check_fil"), nullptr);
}

TEST(Host, TheTableRunsTheFunctionsAndKnowsWhatTheyMove) {
  // Five doubles and half of a sixth, which triad leaves alone and copy takes.
  std::vector<double> to(6);
  const std::vector<double> from{1, 2, 3, 4, 5, 6};
  const std::vector<double> other{10, 20, 30, 40, 50, 60};
  const StreamArguments arguments{to.data(), from.data(), other.data(), 44};
  find_kernel("nccl_check_triad")->run(&arguments);
  EXPECT_EQ(to, (std::vector<double>{31, 62, 93, 124, 155, 0}));
  EXPECT_EQ(find_kernel("nccl_check_triad")->bytes_moved(&arguments), 132U);
  std::memset(to.data(), 0xff, 48);
  find_kernel("nccl_check_copy")->run(&arguments);
  EXPECT_EQ(std::memcmp(to.data(), from.data(), 44), 0);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const char*>(to.data()) + 44, "\xff\xff\xff\xff", 4), 0);
  EXPECT_EQ(find_kernel("nccl_check_copy")->bytes_moved(&arguments), 88U);
  Bytes bytes(6);
  const FillArguments filling{bytes.data(), 3, 0, 1, Type::bfloat16, Reduction::sum, 0, 2};
  EXPECT_EQ(find_kernel("nccl_check_fill")->bytes_moved(&filling), 6U);
}

TEST(Host, ALatchOpensAtItsValueOrLaterAndNeverWaitsLonger) {
  using namespace std::chrono;
  std::uint32_t flag = 3;
  const auto waited = [&](std::uint32_t value, std::uint64_t most) {
    const auto start = steady_clock::now();
    latch({&flag, value, 0, most});
    return duration_cast<milliseconds>(steady_clock::now() - start).count();
  };
  EXPECT_LT(waited(3, 10'000'000'000), 5000);
  EXPECT_LT(waited(2, 10'000'000'000), 5000);
  EXPECT_GE(waited(4, 20'000'000), 20);
  flag = 1;
  EXPECT_LT(waited(0xfffffffe, 10'000'000'000), 5000);  // the counter went past 0
}

TEST(Image, IsThereExactlyWhenItsToolkitIs) {
  EXPECT_EQ(image().empty(), toolkit_version() == 0);
  EXPECT_EQ(architectures().empty(), toolkit_version() == 0);
  if (image().empty()) return;
  EXPECT_EQ(image().substr(0, 4), std::string_view("\x50\xed\x55\xba", 4));  // a fat binary's magic number
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image().data()) % 8, 0U);
}

}  // namespace
}  // namespace nccl_check::kernels
