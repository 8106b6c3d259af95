#include "engine/fabric/schedule.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <vector>

namespace nccl_check::engine::fabric {
namespace {

using verdict::Operation;

// One rank's memory, with a float in each element. Slots are not simulated: what is received is handled at
// once.
struct Rank {
  std::vector<float> input;
  std::vector<float> output;
};

std::vector<float>& at(Rank& rank, const Span& span) {
  return span.in == Span::In::input ? rank.input : rank.output;
}

// Runs a ring in lock step: message k of every rank, then k + 1. A rank's message k + chunks depends on its k
// only.
void run(Operation operation, int n, std::uint64_t bytes, std::vector<Rank>& ranks) {
  std::vector<Schedule> schedules;
  for (int r = 0; r < n; ++r) schedules.emplace_back(operation, r, n, bytes);
  for (std::uint64_t k = 0; k < schedules[0].messages(); ++k) {
    std::vector<std::vector<float>> lines(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) {
      const auto span = schedules[r].send(k);
      ASSERT_LE(span.bytes, schedules[r].chunk_bytes());
      ASSERT_LE(span.offset + span.bytes, bytes);
      auto& from = at(ranks[r], span);
      lines[(r + 1) % n].assign(from.begin() + static_cast<long>(span.offset / 4),
                                from.begin() + static_cast<long>((span.offset + span.bytes) / 4));
    }
    for (int r = 0; r < n; ++r) {
      const auto span = schedules[r].receive(k);
      ASSERT_EQ(span.bytes, lines[r].size() * 4) << "both ends count alike";
      ASSERT_LE(schedules[r].sends_before(k), k) << "only on earlier ones, or the ring could lock";
      const auto sum = schedules[r].adds_to(k);
      ASSERT_EQ(span.in == Span::In::slot,
                operation == Operation::all_reduce && k < schedules[r].messages() / 2);
      if (span.in == Span::In::slot) {
        ASSERT_EQ(sum.bytes, span.bytes);
        for (std::size_t i = 0; i < lines[r].size(); ++i)
          ranks[r].output[sum.offset / 4 + i] = lines[r][i] + ranks[r].input[sum.offset / 4 + i];
      } else {
        ASSERT_EQ(sum.bytes, 0U);
        std::copy(lines[r].begin(), lines[r].end(),
                  ranks[r].output.begin() + static_cast<long>(span.offset / 4));
      }
    }
  }
}

const std::vector<std::uint64_t> sizes{0, 4, 8, 12, 100, 4096, 1'000'000, 3'000'004, 9'000'000};

TEST(Schedule, ARingAddsEveryRanksInput) {
  for (const int n : {2, 3, 4, 5, 7}) {
    for (const auto bytes : sizes) {
      std::vector<Rank> ranks(static_cast<std::size_t>(n));
      std::vector<float> expected(bytes / 4, 0);
      for (int r = 0; r < n; ++r) {
        ranks[r].output.assign(bytes / 4, -1);
        for (std::uint64_t i = 0; i < bytes / 4; ++i) {
          ranks[r].input.push_back(static_cast<float>((i * 7 + static_cast<std::uint64_t>(r) * 13) % 101));
          expected[i] += ranks[r].input[i];
        }
      }
      run(Operation::all_reduce, n, bytes, ranks);
      for (int r = 0; r < n; ++r)
        ASSERT_EQ(ranks[r].output, expected) << n << " ranks, " << bytes << " bytes, rank " << r;
    }
  }
}

TEST(Schedule, ARingGathersEveryRanksShare) {
  for (const int n : {2, 3, 4, 5, 7}) {
    for (const auto size : sizes) {
      const auto bytes = usable_bytes(Operation::all_gather, n, size);
      const auto share = bytes / static_cast<std::uint64_t>(n) / 4;
      std::vector<Rank> ranks(static_cast<std::size_t>(n));
      std::vector<float> expected;
      for (std::uint64_t i = 0; i < bytes / 4; ++i) expected.push_back(static_cast<float>(i % 9973));
      for (int r = 0; r < n; ++r) {
        ranks[r].output.assign(bytes / 4, -1);
        std::copy_n(expected.begin() + static_cast<long>(share * static_cast<std::uint64_t>(r)), share,
                    ranks[r].output.begin() + static_cast<long>(share * static_cast<std::uint64_t>(r)));
      }
      run(Operation::all_gather, n, bytes, ranks);
      for (int r = 0; r < n; ++r)
        ASSERT_EQ(ranks[r].output, expected) << n << " ranks, " << bytes << " bytes, rank " << r;
    }
  }
}

TEST(Schedule, APairExchangesEverythingOnce) {
  for (const auto bytes : sizes) {
    const Schedule schedule(Operation::send_recv, 3, 8, bytes);
    std::uint64_t sent = 0;
    for (std::uint64_t k = 0; k < schedule.messages(); ++k) {
      EXPECT_EQ(schedule.send(k).in, Span::In::input);
      EXPECT_EQ(schedule.send(k).offset, sent);
      EXPECT_EQ(schedule.receive(k).in, Span::In::output);
      EXPECT_EQ(schedule.receive(k).offset, sent);
      EXPECT_EQ(schedule.receive(k).bytes, schedule.send(k).bytes);
      sent += schedule.send(k).bytes;
    }
    EXPECT_EQ(sent, bytes);
    EXPECT_EQ(schedule.messages(), schedule.ready_at_first());
  }
}

// What a receive would overwrite must have left before: every earlier send from the same place.
TEST(Schedule, AReceiveWaitsForTheSendsFromWhereItGoes) {
  for (const int n : {2, 3, 5}) {
    const Schedule schedule(Operation::all_reduce, 1, n, 5'000'000);
    for (std::uint64_t k = 0; k < schedule.messages(); ++k) {
      const auto to = schedule.receive(k);
      if (to.in == Span::In::slot || to.bytes == 0) continue;
      for (std::uint64_t s = 0; s < k; ++s) {
        const auto from = schedule.send(s);
        const bool overlap = from.in == Span::In::output && from.offset < to.offset + to.bytes &&
                             to.offset < from.offset + from.bytes;
        if (overlap) {
          ASSERT_LT(s, schedule.sends_before(k)) << n << " ranks, receive " << k << ", send " << s;
        }
      }
    }
  }
}

TEST(Schedule, MessagesAreNeitherTinyNorHuge) {
  EXPECT_EQ(Schedule(Operation::send_recv, 0, 2, 1U << 30U).chunk_bytes(), 1U << 20U);
  EXPECT_EQ(Schedule(Operation::send_recv, 0, 2, 1000).messages(), 1U);
  EXPECT_EQ(Schedule(Operation::send_recv, 0, 2, 0).messages(), 0U);
  EXPECT_EQ(Schedule(Operation::all_reduce, 0, 1, 1000).messages(), 0U) << "a ring of one";
}

TEST(UsableBytes, AreWholeElementsAndEqualShares) {
  EXPECT_EQ(usable_bytes(Operation::all_reduce, 3, 1003), 1000U);
  EXPECT_EQ(usable_bytes(Operation::send_recv, 3, 3), 0U);
  EXPECT_EQ(usable_bytes(Operation::all_gather, 3, 100), 96U);
  EXPECT_EQ(usable_bytes(Operation::all_gather, 3, 95), 48U);
  EXPECT_EQ(usable_bytes(Operation::all_gather, 3, 47), 0U);
}

}  // namespace
}  // namespace nccl_check::engine::fabric
