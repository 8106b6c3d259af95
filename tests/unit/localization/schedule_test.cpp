#include "job/localization/schedule.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.hpp"

namespace nccl_check::localization {

static void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.a << "-" << pair.b;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Node> nodes(const std::vector<std::string>& leaves) {
  std::vector<Node> out;
  for (const std::string& leaf : leaves) out.push_back({fmt::format("n{}", out.size() + 1), leaf});
  return out;
}

TEST(Schedule, TheFirstRoundPairsNeighboursWithinEachLeaf) {
  const Ledger ledger(nodes({"a", "b", "a", "b", "a", "c"}));
  EXPECT_THAT(plan_inside(ledger, 1, 3), ElementsAre(Pair{0, 2}, Pair{1, 3}));
}

TEST(Schedule, SuspectsGetTheNearestClearedNodesThatTheyHaveNotMet) {
  Ledger ledger(nodes({"a", "a", "a", "a", "a", "a", "a"}));
  ledger.add({0, 1}, Finding::fast, 46, false);
  ledger.add({2, 3}, Finding::slow, 11, false);
  ledger.add({4, 5}, Finding::fast, 46, false);
  EXPECT_THAT(plan_inside(ledger, 2, 3), ElementsAre(Pair{2, 1}, Pair{3, 4}, Pair{6, 5}));
}

TEST(Schedule, AClearedNodeServesOneSuspectARoundAndTheRestGetEachOther) {
  Ledger ledger(nodes({"a", "a", "a", "a", "a", "a", "a", "a"}));
  ledger.add({0, 1}, Finding::fast, 46, false);
  for (const std::size_t i : {2, 4, 6}) ledger.add({i, i + 1}, Finding::slow, 11, false);
  EXPECT_THAT(plan_inside(ledger, 2, 3), ElementsAre(Pair{2, 1}, Pair{3, 0}, Pair{4, 6}, Pair{5, 7}));
}

TEST(Schedule, AGroupWithoutAFastPairIsGivenUp) {
  Ledger ledger(nodes({"a", "a", "a", "a"}));
  ledger.add({0, 1}, Finding::slow, 11, false);
  ledger.add({2, 3}, Finding::slow, 11, false);
  EXPECT_THAT(plan_inside(ledger, 3, 3), SizeIs(2));
  EXPECT_THAT(plan_inside(ledger, 4, 3), IsEmpty());
}

TEST(Schedule, AcrossEachLeafSpeaksOnceAndNotMoreThanAllowed) {
  Ledger ledger(nodes({"a", "a", "b", "b", "c", "c", "d", "d"}));
  for (const std::size_t i : {0, 2, 4, 6}) ledger.add({i, i + 1}, Finding::fast, 46, false);
  EXPECT_THAT(plan_across(ledger, 1), ElementsAre(Pair{0, 2}, Pair{4, 6}));
  ledger.add({0, 2}, Finding::slow, 11, false);
  ledger.add({4, 6}, Finding::fast, 46, false);
  EXPECT_THAT(plan_across(ledger, 1), ElementsAre(Pair{0, 4}, Pair{2, 6}));
  EXPECT_THAT(plan_across(ledger, 0), IsEmpty());
}

TEST(Schedule, AcrossIsLeftOutWhereTheLeavesExplainItAll) {
  Ledger ledger(nodes({"a", "a", "a", "a", "b", "b"}));
  ledger.add({0, 1}, Finding::slow, 11, false);
  ledger.add({2, 3}, Finding::fast, 46, false);
  ledger.add({4, 5}, Finding::fast, 46, false);
  ledger.add({0, 2}, Finding::fast, 46, false);
  ledger.add({1, 3}, Finding::fast, 46, false);
  EXPECT_THAT(plan_across(ledger, 1), IsEmpty());
}

TEST(Schedule, TheAccusedAreMeasuredAgainWithAWitnessTheyHaveNotMet) {
  Ledger ledger(nodes({"a", "a", "a", "a", "a", "a"}));
  ledger.add({0, 1}, Finding::slow, 11, false);
  ledger.add({2, 3}, Finding::fast, 46, false);
  ledger.add({4, 5}, Finding::fast, 46, false);
  ledger.add({0, 2}, Finding::slow, 11, false);
  ledger.add({1, 3}, Finding::fast, 46, false);
  EXPECT_THAT(plan_confirm(ledger), ElementsAre(Pair{0, 3}));
  ledger.add({0, 3}, Finding::slow, 11, true);
  EXPECT_THAT(plan_confirm(ledger), IsEmpty());
}

TEST(Schedule, WhereLeavesAreUnknownTheWitnessComesFromFarDownTheList) {
  Ledger ledger(nodes(std::vector<std::string>(20, "")));
  for (std::size_t i = 0; i < 20; i += 2)
    ledger.add({i, i + 1}, i == 4 ? Finding::slow : Finding::fast, 46, false);
  ledger.add({4, 3}, Finding::slow, 11, false);
  ledger.add({5, 6}, Finding::fast, 46, false);
  EXPECT_THAT(plan_confirm(ledger), ElementsAre(Pair{4, 14}));
}

TEST(Schedule, WhereMostOfALeafAreAccusedNothingIsConfirmed) {
  Ledger ledger(nodes({"a", "a", "a", "a", "a"}));
  ledger.add({0, 1}, Finding::fast, 46, false);
  for (const std::size_t accused : {2, 3, 4}) {
    ledger.add({accused, 0}, Finding::slow, 11, false);
    ledger.add({accused, 1}, Finding::slow, 11, false);
  }
  EXPECT_TRUE(ledger.most_accused(ledger.groups()[0]));
  EXPECT_THAT(plan_confirm(ledger), IsEmpty());
  EXPECT_THAT(plan_inside(ledger, 2, 3), IsEmpty());
}

TEST(Schedule, ALeafHelpsAcrossNoMoreThanAllowed) {
  Ledger ledger(nodes({"a", "b", "b", "c"}));
  ledger.add({1, 2}, Finding::fast, 46, false);
  EXPECT_THAT(plan_across(ledger, 1), ElementsAre(Pair{0, 1}));
  EXPECT_THAT(plan_across(ledger, 2), ElementsAre(Pair{0, 1}, Pair{3, 2}));
}

TEST(Schedule, WhereThereIsNoOtherWitnessTheSameOneServesAgain) {
  Ledger ledger(nodes({"a", "a", "a"}));
  ledger.add({0, 1}, Finding::slow, 11, false);
  ledger.add({0, 2}, Finding::slow, 11, false);
  ledger.add({1, 2}, Finding::fast, 46, false);
  ASSERT_TRUE(ledger.accused(0));
  EXPECT_FALSE(ledger.confirmed(0));
  EXPECT_THAT(plan_confirm(ledger), ElementsAre(Pair{0, 1}));
}

TEST(Schedule, WhereLeavesAreUnknownTheNextGoodNodeOnEachSideIsTried) {
  Ledger ledger(nodes({"", "", "", "", "", "", "", ""}));
  const auto slow = [&](std::size_t a, std::size_t b) { ledger.add({a, b}, Finding::slow, 11, false); };
  ledger.add({0, 1}, Finding::fast, 46, false);
  ledger.add({6, 7}, Finding::fast, 46, false);
  slow(2, 3);
  slow(4, 5);
  slow(2, 7);
  slow(3, 6);
  ledger.add({5, 0}, Finding::fast, 46, false);
  slow(4, 1);
  // 2 and 3 are accused, and 4, that has met 5 and 1.
  EXPECT_THAT(beside(ledger, 3).nodes, ElementsAre(2, 1, 4, 5));
  EXPECT_TRUE(beside(ledger, 3).ends);
  EXPECT_THAT(beside(ledger, 2).nodes, ElementsAre(1, 3, 4, 5));
  ledger.lose(1);
  EXPECT_THAT(beside(ledger, 2).nodes, ElementsAre(0, 3, 4, 5));
}

TEST(Schedule, MoreThanThreeDoubtfulInARowHaveNoEnd) {
  Ledger ledger(nodes({"", "", "", "", "", ""}));
  EXPECT_FALSE(beside(ledger, 0).ends);
  EXPECT_THAT(beside(ledger, 0).nodes, ElementsAre(1, 2, 3));
  EXPECT_TRUE(beside(ledger, 2).ends);
  EXPECT_THAT(beside(ledger, 2).nodes, ElementsAre(1, 0, 3, 4, 5));
}

TEST(Schedule, RoundsDoNotGrowWithTheNumberOfNodes) {
  for (const std::size_t n : {100, 1000, 10'000}) {
    World world = World::of(n);
    Localization localization(world.nodes);
    for (std::size_t i = 7; i < n; i += 31) world.slow.insert(i);  // apart from each other
    int rounds = 0;
    while (auto round = localization.next_round()) {
      ++rounds;
      for (const Pair& pair : round->pairs) ASSERT_TRUE(localization.record(world.measure(pair)));
    }
    EXPECT_EQ(rounds, 3) << n;
    EXPECT_EQ(culprits(localization.outcome()), named(world, world.slow));
  }
}

}  // namespace
}  // namespace nccl_check::localization
