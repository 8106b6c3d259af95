// What record() refuses, and that it then records nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "world.hpp"

namespace nccl_check::localization {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Record, RefusesWhatTheRoundDidNotAskFor) {
  Localization localization(World::of(4).nodes);
  EXPECT_THAT(localization.record({{0, 1}, Finding::fast, 46, 3, {}}).error().text(),
              HasSubstr("no open pair"));
  ASSERT_TRUE(localization.next_round());
  EXPECT_THAT(localization.record({{0, 2}, Finding::fast, 46, 3, {}}).error().text(),
              HasSubstr("nodes 0 and 2 are no open pair of round 1"));
  ASSERT_TRUE(localization.record({{0, 1}, Finding::fast, 46, 3, {}}));
  EXPECT_FALSE(localization.record({{0, 1}, Finding::slow, 11, 6, {}}).ok());
  EXPECT_FALSE(localization.record({{7, 9}, Finding::slow, 11, 6, {}}).ok());
  EXPECT_EQ(localization.outcome().cleared.size(), 2U);
}

TEST(Record, RefusesSlowOnFewerThanFiveSamples) {
  Localization localization(World::of(2).nodes);
  ASSERT_TRUE(localization.next_round());
  EXPECT_THAT(localization.record({{0, 1}, Finding::slow, 11, 4, {}}).error().text(),
              HasSubstr("n1-n2: slow on 4 samples"));
  EXPECT_TRUE(localization.record({{0, 1}, Finding::slow, 11, 5, {}}));
}

TEST(Record, RefusesAFindingWithoutABandwidth) {
  Localization localization(World::of(2).nodes);
  ASSERT_TRUE(localization.next_round());
  for (const Finding finding : {Finding::fast, Finding::slow, Finding::corrupt}) {
    for (const double busbw : {0.0, -1.0, std::nan(""), HUGE_VAL})
      EXPECT_THAT(localization.record({{0, 1}, finding, busbw, 9, {}}).error().text(),
                  HasSubstr("no bandwidth"));
  }
  EXPECT_TRUE(localization.record({{0, 1}, Finding::hung, 0, 0, {}}));
}

TEST(Record, OnlyAFailedPairLosesNodesAndOnlyItsOwn) {
  Localization localization(World::of(4).nodes);
  ASSERT_TRUE(localization.next_round());
  EXPECT_FALSE(localization.record({{0, 1}, Finding::slow, 11, 6, {1}}).ok());
  EXPECT_FALSE(localization.record({{0, 1}, Finding::failed, 0, 0, {2}}).ok());
  EXPECT_THAT(localization.outcome().missing, IsEmpty());
  EXPECT_TRUE(localization.record({{0, 1}, Finding::failed, 0, 0, {1}}));
  EXPECT_THAT(localization.outcome().missing, ElementsAre(1U));
}

TEST(Record, AFailureWithoutANameLosesNobodyAndBothGetOtherPartners) {
  Localization localization(World::of(4).nodes);
  ASSERT_TRUE(localization.next_round());
  ASSERT_TRUE(localization.record({{0, 1}, Finding::failed, 0, 0, {}}));
  ASSERT_TRUE(localization.record({{2, 3}, Finding::fast, 46, 3, {}}));
  const auto round = localization.next_round();
  ASSERT_TRUE(round);
  EXPECT_THAT(round->pairs, ElementsAre(Pair{0, 2}, Pair{1, 3}));
}

TEST(Record, PairsThatWereNotRecordedCountAsNotMeasured) {
  Localization localization(World::of(4).nodes);
  ASSERT_TRUE(localization.next_round());
  ASSERT_TRUE(localization.record({{2, 3}, Finding::fast, 46, 3, {}}));
  const auto round = localization.next_round();
  ASSERT_TRUE(round);
  EXPECT_THAT(round->pairs, ElementsAre(Pair{0, 2}, Pair{1, 3}));
}

TEST(Record, NodesLostBeforeTheFirstRoundAreNotPaired) {
  Localization localization(World::of(4).nodes);
  localization.lose(1);
  const auto round = localization.next_round();
  ASSERT_TRUE(round);
  EXPECT_THAT(round->pairs, ElementsAre(Pair{0, 2}));
}

}  // namespace
}  // namespace nccl_check::localization
