#include "verdict/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace nccl_check::verdict {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Judgement judged(const std::vector<double>& values, double limit = 44) {
  auto out = judge(values, limit);
  EXPECT_TRUE(out) << (out ? "" : out.error().text());
  return *out;
}

TEST(Combine, TakesTheSlowestRankOfEachIteration) {
  const std::vector<std::vector<Nanoseconds>> ranks{{10ns, 20ns, 5ns}, {12ns, 8ns, 7ns}};
  auto out = combine(ranks);
  ASSERT_TRUE(out);
  EXPECT_THAT(*out, ElementsAre(12ns, 20ns, 7ns));
}

TEST(Combine, RefusesWhatIsNotOneTimeAnIterationAndRank) {
  using Times = std::vector<std::vector<Nanoseconds>>;
  EXPECT_THAT(combine(Times{}).error().text(), HasSubstr("no times"));
  EXPECT_THAT(combine(Times{{}}).error().text(), HasSubstr("no times"));
  EXPECT_THAT(combine(Times{{1ns, 2ns}, {1ns}}).error().text(),
              HasSubstr("rank 1: 1 times, but rank 0 has 2"));
  EXPECT_THAT(combine(Times{{1ns, 2ns}, {1ns, 0ns}}).error().text(),
              HasSubstr("rank 1: iteration 2 took 0 ns"));
  EXPECT_THAT(combine(Times{{-1ns}}).error().text(), HasSubstr("rank 0: iteration 1 took -1 ns"));
}

TEST(Rates, AreBusBandwidths) {
  const std::vector<Nanoseconds> times{500ms, 250ms};
  EXPECT_THAT(rates(Operation::all_reduce, 4, 1'000'000'000, times), ElementsAre(3, 6));
}

TEST(Judge, ThreeFastSamplesClear) {
  EXPECT_TRUE(judged({}).more);
  EXPECT_TRUE(judged({44}).more);
  EXPECT_TRUE(judged({44, 44}).more);
  const Judgement j = judged({44, 45, 43});
  EXPECT_EQ(j.speed, Speed::fast);
  EXPECT_FALSE(j.more);
  EXPECT_DOUBLE_EQ(j.estimate, 44);
  EXPECT_NEAR(j.spread, 2.0 / 44, 1e-12);
  EXPECT_EQ(j.samples, 3U);
}

TEST(Judge, SixSlowSamplesAccuseAndFiveDoNot) {
  std::vector<double> values(5, 11.2);
  EXPECT_EQ(judged(values).speed, Speed::undecided);
  EXPECT_TRUE(judged(values).more);
  values.push_back(11.4);
  const Judgement j = judged(values);
  EXPECT_TRUE(j.slow());
  EXPECT_FALSE(j.more);
  EXPECT_DOUBLE_EQ(j.estimate, 11.2);
}

TEST(Judge, NeverSlowBelowFiveSamplesWhateverTheSteps) {
  const Rule eager{.slow_step = 100};
  for (std::size_t n = 1; n < 8; ++n) {
    const std::vector<double> values(n, 1.0);
    auto j = judge(values, 44, eager);
    ASSERT_TRUE(j);
    EXPECT_EQ(j->slow(), n >= 5) << n;
  }
}

TEST(Judge, TheLineIsAtNinetyFivePercentOfTheLimit) {
  EXPECT_EQ(judged(std::vector<double>(6, 95.0), 100).speed, Speed::fast);
  EXPECT_EQ(judged(std::vector<double>(6, 94.999), 100).speed, Speed::slow);
}

TEST(Judge, EverySampleCountsInAnyOrder) {
  std::vector<double> values{44, 44, 44, 11, 11, 11, 11, 11};
  const Judgement first = judged(values);
  EXPECT_EQ(first.speed, Speed::undecided);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(judged(values).speed, first.speed);
  EXPECT_DOUBLE_EQ(judged(values).estimate, first.estimate);
}

TEST(Judge, UndecidedAtTheBudgetIsMarginalAndNoMoreIsAsked) {
  std::vector<double> values;
  for (int i = 0; i < 19; ++i) values.push_back(i % 2 == 0 ? 10 : 50);
  EXPECT_TRUE(judged(values).more);
  EXPECT_FALSE(judged(values).marginal());
  values.push_back(10);
  const Judgement j = judged(values);
  EXPECT_EQ(j.speed, Speed::undecided);
  EXPECT_TRUE(j.marginal());
  EXPECT_FALSE(j.more);
  EXPECT_FALSE(j.slow());
}

TEST(Judge, WhatIsNotABandwidthIsNamedAndNeverPasses) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinite, 0.0, -1.0}) {
    const std::vector<double> values{44, 44, bad};
    EXPECT_THAT(judge(values, 44).error().text(), HasSubstr("sample 3"));
    EXPECT_THAT(judge_trigger(values, 44).error().text(), HasSubstr("sample 3"));
    const std::vector<double> good{44, 44, 44};
    EXPECT_THAT(judge(good, bad).error().text(), HasSubstr("limit"));
    EXPECT_THAT(judge_trigger(good, bad).error().text(), HasSubstr("limit"));
  }
}

TEST(JudgeTrigger, GoesByTheMedianOfAtLeastThree) {
  auto two = judge_trigger(std::vector<double>{1, 1}, 100);
  ASSERT_TRUE(two);
  EXPECT_TRUE(two->more);
  EXPECT_EQ(two->speed, Speed::undecided);
  EXPECT_EQ(judge_trigger(std::vector<double>{1, 1, 100}, 100)->speed, Speed::slow);
  EXPECT_EQ(judge_trigger(std::vector<double>{1, 95, 100}, 100)->speed, Speed::fast);
  EXPECT_FALSE(judge_trigger(std::vector<double>{1, 1, 1}, 100)->more);
}

// The figures that facts gave for this rule, with the seeds fixed: healthy links stop early and pass, slow
// ones are found.
struct Tally {
  int slow = 0;
  double samples = 0;
};
Tally repeat(double rate, double noise, int runs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(1, noise);
  Tally out;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> values;
    Judgement j;
    while (j.more) {
      values.push_back(rate * normal(random));
      j = judged(values, 100);
    }
    out.slow += j.slow() ? 1 : 0;
    out.samples += static_cast<double>(values.size()) / runs;
  }
  return out;
}

TEST(Judge, HealthyAtTheLimitIsNotAccusedAndNinetyPercentIsFound) {
  const Tally healthy = repeat(100, 0.02, 20'000, 1);
  EXPECT_EQ(healthy.slow, 0);
  EXPECT_LT(healthy.samples, 3.1);
  const Tally slow = repeat(90, 0.01, 5'000, 2);
  EXPECT_EQ(slow.slow, 5'000);
  EXPECT_LT(slow.samples, 6.1);
  EXPECT_GT(repeat(90, 0.02, 5'000, 3).slow, 4'900);
}

}  // namespace
}  // namespace nccl_check::verdict
