// Every row of decision 5's truth table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.hpp"

namespace nccl_check::localization {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<std::string> leaves(const std::vector<std::pair<std::string, int>>& sizes) {
  std::vector<std::string> out;
  for (const auto& [name, size] : sizes) out.insert(out.end(), static_cast<std::size_t>(size), name);
  return out;
}

TEST(TruthTable, OneNodeHasNoJobScope) {
  const Search s = search(World::of(1));
  EXPECT_EQ(s.outcome.kind, Kind::one_node);
  EXPECT_THAT(s.rounds, IsEmpty());
}

TEST(TruthTable, NoNodesAtAll) {
  EXPECT_EQ(search(World::of(0)).outcome.kind, Kind::one_node);
}

TEST(TruthTable, TwoNodesSlowTogetherAreThePathOrTheSite) {
  World world = World::of(2);
  world.slow = {1};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path_or_site);
  EXPECT_EQ(s.outcome.summary, "n1 and n2 are slow together: the path, or the site");
  EXPECT_THAT(unresolved(s.outcome), ElementsAre("n1", "n2"));
  EXPECT_THAT(s.rounds, SizeIs(1));
}

TEST(TruthTable, NoFastPairAtAllAccusesNobody) {
  for (const std::size_t n : {3, 4, 5, 8, 33, 64}) {
    World world = World::of(n);
    for (std::size_t i = 0; i < n; ++i) world.slow.insert(i);
    const Search s = search(world);
    EXPECT_EQ(s.outcome.kind, Kind::path_or_site) << n;
    EXPECT_EQ(s.outcome.summary, "no pair is fast: the path, or the site");
    EXPECT_THAT(s.outcome.unresolved, SizeIs(n));
    EXPECT_LE(s.rounds.size(), 3U);
  }
}

TEST(TruthTable, OneSlowNodeOfFourIsNamedInTwoPairingRounds) {
  World world = World::of(4);
  world.slow = {2};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::culprit);
  ASSERT_THAT(culprits(s.outcome), ElementsAre("n3"));
  EXPECT_EQ(s.count(Stage::inside), 2);
  EXPECT_EQ(s.count(Stage::confirm), 1);
  EXPECT_EQ(s.rounds.size(), 3U);
  const Suspect& n3 = s.outcome.culprits[0];
  EXPECT_EQ(n3.cls, verdict::Class::slow);
  EXPECT_DOUBLE_EQ(n3.busbw, 11.2);
  EXPECT_EQ(n3.measured, "send/recv 11.2 GB/s with n4, n2 and n1");
  ASSERT_THAT(n3.partners, SizeIs(3));
  for (const Partner& p : n3.partners) {
    EXPECT_DOUBLE_EQ(p.busbw, 11.2);
    EXPECT_EQ(p.cls, verdict::Class::slow);
    EXPECT_TRUE(p.own_leaf);
  }
  EXPECT_THAT(named(world, s.outcome.cleared), ElementsAre("n1", "n2", "n4"));
}

TEST(TruthTable, TwoSlowOfEightAreBothNamedAndSixClearedInTwoPairingRounds) {
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = a + 1; b < 8; ++b) {
      World world = World::of(8);
      world.slow = {a, b};
      const Search s = search(world);
      EXPECT_EQ(culprits(s.outcome), named(world, world.slow)) << a << " " << b;
      EXPECT_THAT(s.outcome.cleared, SizeIs(6));
      EXPECT_EQ(s.count(Stage::inside), 2);
      // Slow with each other, which is no witness' word, or side by side: they are measured again twice.
      EXPECT_GE(s.count(Stage::confirm), 1);
      EXPECT_LE(s.count(Stage::confirm), b == a + 1 ? 2 : 1);
    }
  }
}

TEST(TruthTable, ASlowPathBetweenTwoGoodNodesIsAPath) {
  World world = World::of(4);
  world.slow_paths = {{0, 1}};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path);
  ASSERT_THAT(paths(s.outcome), ElementsAre("n1-n2"));
  EXPECT_EQ(s.outcome.paths[0].text, "n1-n2: send/recv 11.2 GB/s, both are fast with others");
  EXPECT_EQ(s.outcome.summary, s.outcome.paths[0].text);
  EXPECT_THAT(s.outcome.cleared, SizeIs(4));
  EXPECT_THAT(s.outcome.unresolved, IsEmpty());
  EXPECT_EQ(s.rounds.size(), 2U);
}

TEST(TruthTable, APathBesideACulpritIsNamedToo) {
  World world = World::of(8);
  world.slow = {6};
  world.slow_paths = {{0, 1}};
  const Search s = search(world);
  EXPECT_THAT(culprits(s.outcome), ElementsAre("n7"));
  EXPECT_THAT(paths(s.outcome), ElementsAre("n1-n2"));
}

TEST(TruthTable, EveryPairFastThoughAllTogetherAreSlow) {
  const Search s = search(World::of(8));
  EXPECT_EQ(s.outcome.kind, Kind::path_or_site);
  EXPECT_EQ(s.outcome.summary, "every pair is fast, all nodes together are slow: the path, or the site");
  EXPECT_THAT(s.outcome.cleared, SizeIs(8));
  EXPECT_EQ(s.rounds.size(), 1U);
}

TEST(TruthTable, SlowOnlyAcrossLeavesIsThePath) {
  World world = World::of(12, leaves({{"s1", 4}, {"s2", 4}, {"s3", 4}}));
  world.slow_uplinks = {"s2"};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path);
  EXPECT_THAT(paths(s.outcome), ElementsAre("uplinks of leaf switch s2"));
  EXPECT_THAT(s.outcome.cleared, SizeIs(12));
  EXPECT_LE(s.count(Stage::across), 3);
}

TEST(TruthTable, SlowBetweenTwoLeavesOnlyIsThePathBetweenThem) {
  World world = World::of(4, leaves({{"s1", 2}, {"s2", 2}}));
  world.slow_uplinks = {"s2"};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path);
  EXPECT_THAT(paths(s.outcome), ElementsAre("n1-n3"));
}

TEST(TruthTable, SlowOnlyAcrossLeavesAccusesNobodyWhenTheLeafHasManyPairs) {
  World world = World::of(24, leaves({{"s1", 8}, {"s2", 8}, {"s3", 8}}));
  world.slow_uplinks = {"s1"};
  world.settings.across_at_once = 3;
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path);
  EXPECT_THAT(s.outcome.culprits, IsEmpty());
}

TEST(TruthTable, MostNodesSlowIsTheSite) {
  World world = World::of(16);
  for (std::size_t i = 0; i < 10; ++i) world.slow.insert(i);
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::site);
  EXPECT_EQ(s.outcome.summary, "most nodes are slow: the site");
  EXPECT_THAT(s.outcome.culprits, IsEmpty());
}

TEST(TruthTable, MostNodesOfALeafSlowIsTheLeaf) {
  World world = World::of(16, leaves({{"s1", 8}, {"s2", 8}}));
  world.slow = {0, 1, 2, 3, 4, 5};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path);
  EXPECT_THAT(paths(s.outcome), ElementsAre("leaf switch s1"));
  EXPECT_THAT(s.outcome.culprits, IsEmpty());
}

TEST(TruthTable, MostNodesOfTheJobSlowAccusesNobodyOnAGoodLeafEither) {
  World world = World::of(16, leaves({{"s1", 12}, {"s2", 4}}));
  world.slow = {0, 1, 2, 3, 4, 5, 6, 7, 8, 15};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::site);
  ASSERT_FALSE(s.outcome.unresolved.empty());
  EXPECT_EQ(s.outcome.unresolved.back().node, "n16");
  EXPECT_EQ(s.outcome.unresolved.back().why, "as most nodes of the job");
}

TEST(TruthTable, WhereLeavesAreUnknownNobodyIsAccusedBeforeItHasMetThoseBesideIt) {
  const World world = World::of(8);
  Ledger ledger(world.nodes);
  for (const std::size_t i : {0, 4, 6}) ledger.add({i, i + 1}, Finding::fast, 46, false);
  const auto slow = [&](std::size_t node, std::vector<std::size_t> partners) {
    for (const std::size_t partner : partners) ledger.add({node, partner}, Finding::slow, 11, true);
  };
  slow(2, {1, 6, 7});
  slow(3, {4, 5, 7});
  const auto said = [&] { return conclude(world.nodes, ledger, verdict::Class::slow, true); };
  ASSERT_THAT(unresolved(said()), ElementsAre("n3", "n4"));
  EXPECT_EQ(said().unresolved[0].why, "not measured with n4 beside it");
  slow(2, {3});
  EXPECT_EQ(said().unresolved[0].why, "not measured with n5 beside it");
  slow(2, {4});
  slow(3, {1});
  EXPECT_THAT(culprits(said()), ElementsAre("n3", "n4"));
}

TEST(TruthTable, HalfOfTheNodesAreStillNodes) {
  World world = World::of(16, leaves({{"s1", 16}}));
  for (std::size_t i = 0; i < 8; ++i) world.slow.insert(i);
  EXPECT_THAT(search(world).outcome.culprits, SizeIs(8));
}

TEST(TruthTable, AMissingPeerIsNamedAndNobodyIsAccusedForIt) {
  World world = World::of(8);
  world.crashing = {3};
  const Search s = search(world);
  EXPECT_THAT(s.outcome.culprits, IsEmpty());
  EXPECT_THAT(named(world, s.outcome.missing), ElementsAre("n4"));
  EXPECT_THAT(s.outcome.cleared, SizeIs(7));
}

TEST(TruthTable, ACulpritIsFoundBesideAMissingPeer) {
  for (std::size_t missing = 0; missing < 9; ++missing) {
    for (std::size_t culprit = 0; culprit < 9; ++culprit) {
      if (missing == culprit) continue;
      World world = World::of(9);
      world.crashing = {missing};
      world.slow = {culprit};
      const Search s = search(world);
      EXPECT_EQ(culprits(s.outcome), named(world, world.slow)) << missing << " " << culprit;
      EXPECT_EQ(named(world, s.outcome.missing), named(world, world.crashing));
    }
  }
}

TEST(TruthTable, ASlowNodeThatCrashesIsMissingAndNotAccused) {
  World world = World::of(4);
  world.slow = {2};
  Localization localization(world.nodes);
  while (auto round = localization.next_round()) {
    if (round->stage == Stage::confirm) world.crashing = {2};
    for (const Pair& pair : round->pairs) ASSERT_TRUE(localization.record(world.measure(pair)));
  }
  const Outcome outcome = localization.outcome();
  EXPECT_THAT(outcome.culprits, IsEmpty());
  EXPECT_THAT(outcome.missing, ElementsAre(2U));
}

TEST(TruthTable, WhatAPartnerThatCrashedLaterWasSlowWithCountsAgainstNobody) {
  Localization localization(World::of(4).nodes);
  ASSERT_TRUE(localization.next_round());
  ASSERT_TRUE(localization.record({{0, 1}, Finding::slow, 11, 6, {}}));
  ASSERT_TRUE(localization.record({{2, 3}, Finding::fast, 46, 3, {}}));
  localization.lose(1);
  std::vector<Stage> rounds;
  while (auto round = localization.next_round()) {
    rounds.push_back(round->stage);
    for (const Pair& pair : round->pairs) {
      EXPECT_NE(pair.b, 1U);
      ASSERT_TRUE(localization.record({pair, Finding::slow, 11, 6, {}}));
    }
  }
  EXPECT_THAT(rounds,
              ElementsAre(Stage::inside, Stage::inside, Stage::confirm));  // with n3, n4, and one again
  ASSERT_THAT(culprits(localization.outcome()), ElementsAre("n1"));
  EXPECT_EQ(localization.outcome().culprits[0].measured, "send/recv 11.0 GB/s with n3 and n4");
}

TEST(TruthTable, WhoHangsWithTwoPartnersIsTheCulpritAndEveryRoundHasFreshWorkers) {
  for (std::size_t n = 4; n < 20; ++n) {
    World world = World::of(n);
    world.settings.all_nodes = verdict::Class::hung;
    world.hung = {n / 2};
    const Search s = search(world);
    EXPECT_EQ(culprits(s.outcome), named(world, world.hung)) << n;
    for (const Round& round : s.rounds) EXPECT_TRUE(round.fresh);
    // Two hangs in fresh workers with two good partners are the rule already: no round to confirm.
    EXPECT_EQ(s.count(Stage::confirm), 0);
    EXPECT_THAT(s.outcome.culprits[0].measured, HasSubstr("send/recv hung with "));
  }
}

TEST(TruthTable, OneThatHangsAmongSlowOnes) {
  World world = World::of(16);
  world.slow = {3};
  world.hung = {9};
  EXPECT_THAT(culprits(search(world).outcome), ElementsAre("n4", "n10"));
}

TEST(TruthTable, SlowWithOneAndHungWithAnotherIsCalledSlow) {
  Localization localization(World::of(4).nodes);
  bool first = true;
  while (auto round = localization.next_round()) {
    for (const Pair& pair : round->pairs) {
      const bool culprit = pair.a == 0 || pair.b == 0;
      Measurement m{pair, Finding::fast, 46, 3, {}};
      if (culprit) m = {pair, first ? Finding::hung : Finding::slow, first ? 0.0 : 11, 6, {}};
      ASSERT_TRUE(localization.record(m));
    }
    first = false;
  }
  const Outcome outcome = localization.outcome();
  ASSERT_THAT(culprits(outcome), ElementsAre("n1"));
  EXPECT_EQ(outcome.culprits[0].cls, verdict::Class::slow);
}

TEST(TruthTable, WrongDataIsLocalizedTheSameWay) {
  Localization localization(World::of(6).nodes, {.all_nodes = verdict::Class::corrupt});
  while (auto round = localization.next_round()) {
    for (const Pair& pair : round->pairs) {
      const bool culprit = pair.a == 4 || pair.b == 4;
      ASSERT_TRUE(localization.record({pair, culprit ? Finding::corrupt : Finding::fast, 46, 6, {}}));
    }
  }
  const Outcome outcome = localization.outcome();
  ASSERT_THAT(culprits(outcome), ElementsAre("n5"));
  EXPECT_EQ(outcome.culprits[0].cls, verdict::Class::corrupt);
  EXPECT_THAT(outcome.culprits[0].measured, HasSubstr("send/recv gave wrong data with "));
}

TEST(TruthTable, ASuspectThatIsFastWhenMeasuredAgainIsCleared) {
  // Slow in both pairing rounds, fast in the fresh worker: paths are left, and no culprit.
  Localization localization(World::of(6).nodes);
  while (auto round = localization.next_round()) {
    for (const Pair& pair : round->pairs) {
      const bool slow = (pair.a == 0 || pair.b == 0) && round->stage == Stage::inside;
      ASSERT_TRUE(localization.record({pair, slow ? Finding::slow : Finding::fast, slow ? 11.0 : 46, 6, {}}));
    }
  }
  const Outcome outcome = localization.outcome();
  EXPECT_EQ(outcome.kind, Kind::path);
  EXPECT_THAT(outcome.cleared, SizeIs(6));
  EXPECT_THAT(paths(outcome), SizeIs(2));
}

TEST(TruthTable, TheFirstPartnerIsTheSuspectWhenOneOfAPairIsCleared) {
  World world = World::of(6);
  world.slow = {1};
  const Search s = search(world);
  EXPECT_THAT(culprits(s.outcome), ElementsAre("n2"));
  EXPECT_THAT(s.outcome.culprits[0].measured, HasSubstr("with n1"));
}

TEST(TruthTable, ANodeAloneOnItsLeafIsClearedAcrossButNeverAccused) {
  World world = World::of(5, leaves({{"s1", 4}, {"s2", 1}}));
  EXPECT_THAT(search(world).outcome.cleared, SizeIs(5));
  world.slow = {4};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::unresolved);
  ASSERT_THAT(unresolved(s.outcome), ElementsAre("n5"));
  EXPECT_EQ(s.outcome.unresolved[0].why, "not fast with other leaf switches, no partner on its own");
  EXPECT_FALSE(s.outcome.unresolved[0].partners[0].own_leaf);
}

TEST(TruthTable, EveryNodeAloneOnItsLeaf) {
  World world = World::of(
      9, leaves({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1}, {"i", 1}}));
  EXPECT_THAT(search(world).outcome.cleared, SizeIs(9));
  world.slow = {4};
  const Search s = search(world);
  EXPECT_THAT(s.outcome.culprits, IsEmpty());
  EXPECT_THAT(unresolved(s.outcome), ElementsAre("n5"));
  EXPECT_THAT(s.outcome.cleared, SizeIs(8));
}

TEST(TruthTable, TwoOnALeafAreSortedAcrossButNotAccused) {
  World world = World::of(8, leaves({{"s1", 2}, {"s2", 6}}));
  world.slow = {0};
  const Search s = search(world);
  EXPECT_THAT(s.outcome.culprits, IsEmpty());
  EXPECT_THAT(unresolved(s.outcome), ElementsAre("n1"));
  EXPECT_EQ(s.outcome.unresolved[0].why, "no two good partners on its leaf switch s1");
  EXPECT_THAT(s.outcome.cleared, SizeIs(7));
}

TEST(TruthTable, TwoAloneOnASlowLeafThatNobodyKnowsOfAreAPath) {
  // Leaves unknown, n4 and n5 on one of their own with slow uplinks: slow with everybody but each other.
  for (const std::size_t last : {4, 5}) {
    World world = World::of(12);
    for (std::size_t inside = 3; inside <= last; ++inside) {
      for (std::size_t other = 0; other < 12; ++other) {
        if (other < 3 || other > last) world.slow_paths.insert({inside, other});
      }
    }
    const Search s = search(world);
    EXPECT_EQ(s.outcome.kind, Kind::path);
    EXPECT_THAT(s.outcome.cleared, SizeIs(12));
  }
}

TEST(TruthTable, ABadNodeBetweenTwoInnocentsOfSuchALeafIsFoundAlone) {
  World world = World::of(13);
  world.slow = {4};
  for (const std::size_t inside : {3, 4, 5}) {
    for (std::size_t other = 0; other < 13; ++other) {
      if (other < 3 || other > 5) world.slow_paths.insert({inside, other});
    }
  }
  const Search s = search(world);
  EXPECT_THAT(named(world, s.outcome.cleared), ::testing::IsSupersetOf({"n4", "n6"}));
}

TEST(TruthTable, AtTheEndOfAnUnknownLeafANodeIsTriedOnBothSides) {
  // n1 to n8 behind slow uplinks, n7 bad: its partner n8 is slow with n7 and with all of the next leaf.
  World world = World::of(16);
  world.slow = {6};
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 8; b < 16; ++b) world.slow_paths.insert({a, b});
  }
  const Search s = search(world);
  EXPECT_THAT(culprits(s.outcome), ElementsAre("n7"));
  EXPECT_THAT(s.outcome.cleared, SizeIs(15));
}

TEST(TruthTable, InALongRunOfSlowOnesWhoeverHasNotMetItsEndsIsNotAccused) {
  // n10 and n14 could be good, and of one leaf: four others lie between.
  World world = World::of(24);
  world.slow = {9, 10, 11, 12, 13};
  const Search s = search(world);
  EXPECT_THAT(culprits(s.outcome), ElementsAre("n11", "n12", "n13"));
  ASSERT_THAT(unresolved(s.outcome), ElementsAre("n10", "n14"));
  EXPECT_EQ(s.outcome.unresolved[0].why, "so many slow nodes side by side, leaf switches unknown");
  for (Node& node : world.nodes) node.leaf = "s1";
  EXPECT_THAT(search(world).outcome.culprits, SizeIs(5));
}

TEST(TruthTable, AQuarterSlowIsTheSiteWhereLeavesAreUnknown) {
  World world = World::of(16);
  world.slow = {0, 3, 6, 9, 12};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::site);
  EXPECT_EQ(s.outcome.summary, "5 of 16 nodes are slow, leaf switches unknown: the site, or paths");
  for (Node& node : world.nodes) node.leaf = "s1";
  EXPECT_THAT(search(world).outcome.culprits, SizeIs(5));
}

TEST(TruthTable, SoManySlowPathsThatNobodyIsToBlame) {
  // A list in no order of unknown leaves: pairs meet on uplinks everywhere. n16 may be bad, or not.
  World world = World::of(16);
  world.slow = {15};
  world.slow_paths = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  const Search s = search(world);
  EXPECT_EQ(s.outcome.kind, Kind::path);
  EXPECT_THAT(s.outcome.paths, SizeIs(4));
  EXPECT_THAT(s.outcome.summary, HasSubstr(", and 3 more paths"));
  ASSERT_THAT(unresolved(s.outcome), ElementsAre("n16"));
  EXPECT_EQ(s.outcome.unresolved[0].why, "so many slow nodes or paths, leaf switches unknown");
  for (Node& node : world.nodes) node.leaf = "s1";
  EXPECT_THAT(culprits(search(world).outcome), ElementsAre("n16"));
}

}  // namespace
}  // namespace nccl_check::localization
