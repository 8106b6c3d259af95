// Every position, at every small size; and stopping at every point.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "world.hpp"

namespace nccl_check::localization {
namespace {

using ::testing::IsEmpty;

std::vector<std::string> leaves_of(std::size_t n, std::size_t size) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(fmt::format("s{}", i / size));
  return out;
}

TEST(Exhaustive, EverySingleCulpritOfUpTo33Nodes) {
  for (std::size_t n = 1; n <= 33; ++n) {
    for (std::size_t culprit = 0; culprit < n; ++culprit) {
      for (const bool hangs : {false, true}) {
        SCOPED_TRACE(fmt::format("n{} of {}", culprit + 1, n));
        World world = World::of(n);
        (hangs ? world.hung : world.slow) = {culprit};
        if (hangs) world.settings.all_nodes = verdict::Class::hung;
        const Search s = search(world);
        if (n < 3) {
          EXPECT_THAT(s.outcome.culprits, IsEmpty());
          continue;
        }
        EXPECT_EQ(culprits(s.outcome), named(world, hangs ? world.hung : world.slow));
        EXPECT_EQ(s.outcome.cleared.size(), n - 1);
        EXPECT_THAT(s.outcome.paths, IsEmpty());
        EXPECT_LE(s.count(Stage::inside), n % 2 == 0 ? 2 : 3);
        EXPECT_LE(s.count(Stage::confirm), 1);
      }
    }
  }
}

TEST(Exhaustive, EverySingleCulpritInLeavesOfThreeToNine) {
  for (std::size_t n = 1; n <= 33; ++n) {
    for (std::size_t size = 1; size <= 9; ++size) {
      for (std::size_t culprit = 0; culprit < n; ++culprit) {
        SCOPED_TRACE(fmt::format("n{} of {} in leaves of {}", culprit + 1, n, size));
        World world = World::of(n, leaves_of(n, size));
        world.slow = {culprit};
        const Search s = search(world);
        const std::size_t in_leaf = std::min(size, n - culprit / size * size);
        EXPECT_EQ(culprits(s.outcome), in_leaf < 3 ? std::vector<std::string>() : named(world, world.slow));
      }
    }
  }
}

TEST(Exhaustive, EveryTwoCulprits) {
  for (std::size_t n = 2; n <= 33; ++n) {
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a + 1; b < n; ++b) {
        SCOPED_TRACE(fmt::format("n{} and n{} of {}", a + 1, b + 1, n));
        World world = World::of(n);
        world.slow = {a, b};
        const Search s = search(world);
        if (n < 4) {
          EXPECT_THAT(s.outcome.culprits, IsEmpty());
          EXPECT_EQ(s.outcome.kind, Kind::path_or_site);
          continue;
        }
        EXPECT_EQ(culprits(s.outcome), named(world, world.slow));
        EXPECT_EQ(s.outcome.cleared.size(), n - 2);
        EXPECT_LE(s.count(Stage::inside), n < 6 ? 5 : 3);
      }
    }
  }
}

TEST(Exhaustive, EverySlowPath) {
  for (std::size_t n = 3; n <= 17; ++n) {
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a + 1; b < n; ++b) {
        SCOPED_TRACE(fmt::format("n{}-n{} of {}", a + 1, b + 1, n));
        World world = World::of(n);
        world.slow_paths = {{a, b}};
        const Search s = search(world);
        EXPECT_THAT(s.outcome.culprits, IsEmpty());
        EXPECT_EQ(s.outcome.cleared.size(), n);
        bool met = false;
        for (const auto& [m, anew] : s.log)
          met = met || (m.pair.a == a && m.pair.b == b) || (m.pair.a == b && m.pair.b == a);
        EXPECT_EQ(paths(s.outcome).size(), met ? 1U : 0U);
        EXPECT_EQ(s.outcome.kind, met ? Kind::path : Kind::path_or_site);
      }
    }
  }
}

// check_culprit() in world.cpp says the rule from the log alone: here at every point where a deadline can
// strike.
TEST(Exhaustive, StoppedAtEveryPointNobodyIsAccusedOnLessThanTheRule) {
  std::vector<World> worlds;
  for (const std::size_t n : {2, 3, 4, 5, 8, 9, 16}) {
    for (std::size_t culprit = 0; culprit < n; ++culprit) {
      worlds.push_back(World::of(n));
      worlds.back().slow = {culprit};
      worlds.push_back(worlds.back());
      worlds.back().slow.insert((culprit + 3) % n);
      worlds.push_back(World::of(n, leaves_of(n, 5)));
      worlds.back().hung = {culprit};
      worlds.back().settings.all_nodes = verdict::Class::hung;
      worlds.push_back(World::of(n, leaves_of(n, 3)));
      worlds.back().slow_uplinks = {"s1"};
      worlds.back().slow = {culprit};
      worlds.push_back(World::of(n));
      worlds.back().crashing = {culprit};
      worlds.back().slow = {(culprit + 1) % n};
    }
  }
  std::size_t stops = 0;
  std::set<Stage> stages;
  for (const World& world : worlds) {
    const Search whole = search(world);
    for (std::size_t stop = 0; stop <= whole.log.size(); ++stop, ++stops) {
      const Search part = search(world, stop);
      if (!part.rounds.empty()) stages.insert(part.rounds.back().stage);
      for (const std::string& name : culprits(part.outcome))
        EXPECT_THAT(culprits(whole.outcome), ::testing::Contains(name));
      if (stop < whole.log.size() && part.outcome.culprits.empty()) {
        EXPECT_NE(part.outcome.kind, Kind::culprit);
      }
    }
  }
  EXPECT_GT(stops, 1000U);
  EXPECT_GE(stages.size(), 3U);
}

TEST(Exhaustive, BeforeAnythingIsMeasuredNothingIsKnown) {
  const Search s = search(World::of(4), 0);
  EXPECT_EQ(s.outcome.kind, Kind::unresolved);
  EXPECT_EQ(s.outcome.summary, "stopped before it was found who it is");
  for (const Suspect& u : s.outcome.unresolved) EXPECT_EQ(u.why, "not measured in time");
}

// Findings out of nowhere, contradictory ones too: rounds are always disjoint and bounded, and the rule
// holds.
TEST(Exhaustive, RandomFindingsNeverBreakTheRules) {
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int run = 0; run < 3000; ++run) {
    const std::size_t n = 1 + below(40);
    std::vector<Node> nodes;
    const std::size_t leaf_count = below(6);
    for (std::size_t i = 0; i < n; ++i)
      nodes.push_back({fmt::format("n{}", i), leaf_count == 0 ? "" : fmt::format("s{}", below(leaf_count))});
    Settings settings;
    settings.across_at_once = below(4);
    settings.all_nodes = below(2) == 0 ? verdict::Class::slow : verdict::Class::hung;
    Localization localization(nodes, settings);
    std::set<std::size_t> fast;
    std::set<std::size_t> lost;
    const std::size_t fast_in = 1 + below(9);
    int rounds = 0;
    while (auto round = localization.next_round()) {
      ASSERT_LE(++rounds, 16);
      std::set<std::size_t> busy;
      for (const Pair& pair : round->pairs) {
        ASSERT_TRUE(busy.insert(pair.a).second && busy.insert(pair.b).second);
        ASSERT_EQ(lost.count(pair.a) + lost.count(pair.b), 0U);
        if (below(20) == 0) continue;  // not recorded
        Measurement m{pair, below(10) < fast_in ? Finding::fast : static_cast<Finding>(below(5)), 20, 6, {}};
        if (m.finding == Finding::failed && below(2) == 0) m.lost = {pair.b};
        ASSERT_TRUE(localization.record(m));
        if (m.finding == Finding::fast) fast.insert({pair.a, pair.b});
        lost.insert(m.lost.begin(), m.lost.end());
      }
    }
    const Outcome outcome = localization.outcome();
    for (const Suspect& culprit : outcome.culprits) {
      EXPECT_EQ(fast.count(culprit.index) + lost.count(culprit.index), 0U);
      std::set<std::string> partners;
      for (const Partner& p : culprit.partners) partners.insert(p.node);
      EXPECT_GE(partners.size(), 2U);
    }
    EXPECT_LE(outcome.culprits.size() * 2, n);
    EXPECT_EQ(
        outcome.culprits.size() + outcome.unresolved.size() + outcome.cleared.size() + outcome.missing.size(),
        n);
  }
}

}  // namespace
}  // namespace nccl_check::localization
