#include "engine/fabric/memory_copy.hpp"

#include <gmock/gmock.h>

#include <filesystem>

namespace nccl_check::engine::fabric {
namespace {

using testing::HasSubstr;

Task task(std::uint64_t bytes) {
  Task task;
  task.operation = verdict::Operation::memory_copy;
  task.bytes = bytes;
  task.iterations = 3;
  task.seed = 5;
  return task;
}

long threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

TEST(MemoryCopy, CountsBytesBothWaysAndVerifies) {
  // The first thread of a process may bring others with it (ThreadSanitizer's own).
  ASSERT_TRUE(memory_copy(task(128), 1024, {}, Deadline::in(std::chrono::seconds(20))));
  for (const std::uint64_t bytes : {0U, 1U, 128U, 1000U, 8U << 20U, (8U << 20U) + 12345U}) {
    const auto before = threads();
    auto samples = memory_copy(task(bytes), 64U << 20U, {}, Deadline::in(std::chrono::seconds(20)));
    ASSERT_TRUE(samples) << samples.failure().error.text();
    EXPECT_EQ(samples->times.size(), 3U);
    EXPECT_EQ(samples->bytes, bytes / 128 * 128);
    EXPECT_EQ(samples->wrong, 0U) << samples->first_wrong;
    EXPECT_EQ(threads(), before) << "every thread is joined";
  }
}

TEST(MemoryCopy, ALargerBufferThanAllowedIsRefused) {
  auto samples = memory_copy(task(8U << 20U), 1U << 20U, {}, Deadline::in(std::chrono::seconds(20)));
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.failure().cls, verdict::Class::untested);
  EXPECT_THAT(samples.failure().error.text(), HasSubstr("needs buffers of 4 MiB, 1 MiB"));
}

TEST(MemoryCopy, EndsAtTheDeadlineWithSignsOfLife) {
  auto long_task = task(32U << 20U);
  long_task.iterations = 100'000;
  int beats = 0;
  const auto start = Clock::now();
  auto samples = memory_copy(
      long_task, 64U << 20U, [&] { ++beats; }, Deadline::in(Milliseconds(500)));
  ASSERT_FALSE(samples);
  EXPECT_THAT(samples.failure().error.text(), HasSubstr("deadline"));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  EXPECT_GE(beats, 3);
}

}  // namespace
}  // namespace nccl_check::engine::fabric
