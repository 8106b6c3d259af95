#include "engine/nccl/crew.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace nccl_check::engine::nccl {
namespace {

using testing::HasSubstr;
using verdict::Class;

TEST(Crew, WorkOfOneBatchRunsAtOnceAndBeatsGoOn) {
  std::atomic<int> beats{0};
  Crew crew([&] { ++beats; });
  Batch batch(crew, "meeting", Deadline::in(Milliseconds(20000)));
  std::atomic<int> inside{0};
  for (int i = 0; i < 3; ++i)
    batch.add(i, "GPU " + std::to_string(i), [&](const Patience& patience) -> Trouble {
      ++inside;
      while (inside < 3 && !patience.over()) std::this_thread::sleep_for(Milliseconds(1));
      std::this_thread::sleep_for(Milliseconds(300));
      return std::nullopt;
    });
  EXPECT_FALSE(batch.wait());
  EXPECT_EQ(inside, 3);
  EXPECT_GE(beats, 3);
}

TEST(Crew, AHungPieceIsNamedAtTheDeadline) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  Crew crew({});
  Batch batch(crew, "making contexts", Deadline::in(Milliseconds(200)));
  batch.add(0, "GPU 0", [](const Patience&) -> Trouble { return std::nullopt; });
  batch.add(1, "GPU 1", [release](const Patience&) -> Trouble {
    while (!*release) std::this_thread::sleep_for(Milliseconds(5));
    return std::nullopt;
  });
  const auto begin = Clock::now();
  const auto trouble = batch.wait();
  EXPECT_LT(Clock::now() - begin, Milliseconds(1000));
  EXPECT_FALSE(crew.idle(Deadline::in(Milliseconds(20))));
  *release = true;
  EXPECT_TRUE(crew.idle(Deadline::in(Milliseconds(20000))));
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->cls, Class::hung);
  EXPECT_EQ(trouble->error.where, "GPU 1");
  EXPECT_THAT(trouble->error.what, HasSubstr("making contexts"));
}

// What a piece of work holds goes after its end is known; until then its thread is no idle one.
TEST(Crew, AThreadGetsAMomentAfterItsLastPiece) {
  struct Slow {
    ~Slow() { std::this_thread::sleep_for(Milliseconds(300)); }
  };
  Crew crew({});
  Batch batch(crew, "stage", Deadline::in(Milliseconds(20000)));
  batch.add(0, "GPU 0",
            [slow = std::make_shared<Slow>()](const Patience&) -> Trouble { return std::nullopt; });
  EXPECT_FALSE(batch.wait());
  EXPECT_FALSE(crew.idle(Deadline::in(Milliseconds(0))));
  EXPECT_TRUE(crew.idle(Deadline::in(Milliseconds(20000))));
}

TEST(Crew, TheFirstFailureStopsTheOthersAndIsTheOneReported) {
  Crew crew({});
  Batch batch(crew, "stage", Deadline::in(Milliseconds(20000)));
  batch.add(0, "GPU 0", [](const Patience& patience) -> Trouble {
    while (!patience.over()) std::this_thread::sleep_for(Milliseconds(1));
    return hung("stage", "GPU 0");
  });
  batch.add(1, "GPU 1", [](const Patience&) -> Trouble {
    return Failure{Class::broken, {"it broke", "GPU 1", ""}};
  });
  const auto begin = Clock::now();
  const auto trouble = batch.wait();
  EXPECT_LT(Clock::now() - begin, Milliseconds(5000));
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->cls, Class::broken);
}

TEST(Crew, AnExceptionIsAFailure) {
  Crew crew({});
  Batch batch(crew, "stage", Deadline::in(Milliseconds(5000)));
  batch.add(0, "GPU 0", [](const Patience&) -> Trouble { throw std::runtime_error("no memory"); });
  const auto trouble = batch.wait();
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->error.what, "no memory");
}

}  // namespace
}  // namespace nccl_check::engine::nccl
