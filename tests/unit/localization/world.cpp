#include "world.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace nccl_check::localization {
namespace {

std::string text(const Round& round) {
  std::string out = fmt::format("round {}, stage {}:", round.number, static_cast<int>(round.stage));
  for (const Pair& p : round.pairs) out += fmt::format(" {}-{}", p.a, p.b);
  return out;
}

void check_round(const World& world, const Round& round, const Search& so_far) {
  SCOPED_TRACE(text(round));
  EXPECT_EQ(round.number, static_cast<int>(so_far.rounds.size()) + 1);
  EXPECT_FALSE(round.pairs.empty());
  std::set<std::size_t> busy;
  std::map<std::string, std::size_t> crossing;
  for (const Pair& p : round.pairs) {
    ASSERT_LT(std::max(p.a, p.b), world.nodes.size());
    EXPECT_TRUE(busy.insert(p.a).second && busy.insert(p.b).second) << "not disjoint";
    const bool own = world.nodes[p.a].leaf == world.nodes[p.b].leaf;
    EXPECT_EQ(own, round.stage != Stage::across);
    if (!own) {
      EXPECT_LE(++crossing[world.nodes[p.a].leaf], world.settings.across_at_once);
      EXPECT_LE(++crossing[world.nodes[p.b].leaf], world.settings.across_at_once);
    }
    EXPECT_EQ(so_far.lost.count(p.a) + so_far.lost.count(p.b), 0U) << "a lost node is paired again";
    EXPECT_TRUE(round.stage == Stage::confirm || so_far.met.count(std::minmax(p.a, p.b)) == 0)
        << "paired twice";
  }
  const bool anew = round.stage == Stage::confirm;
  EXPECT_EQ(round.fresh, anew || world.settings.all_nodes == verdict::Class::hung);
}

// The rule, said once more from the log alone: two partners of its own leaf that were fast with another one
// there; a measurement in fresh workers after an earlier one; never fast; every partner that it names is one
// of those.
void check_culprit(const World& world, const Suspect& culprit, const Search& done) {
  SCOPED_TRACE(culprit.node);
  const auto has_fast_partner = [&](std::size_t node) {
    for (const auto& [m, anew] : done.log) {
      const bool in_it = m.pair.a == node || m.pair.b == node;
      if (in_it && m.finding == Finding::fast && world.nodes[m.pair.a].leaf == world.nodes[m.pair.b].leaf)
        return true;
    }
    return false;
  };
  std::set<std::string> good;
  std::size_t times = 0;
  bool fresh = false;
  for (const auto& [m, anew] : done.log) {
    if (m.pair.a != culprit.index && m.pair.b != culprit.index) continue;
    EXPECT_NE(m.finding, Finding::fast);
    const std::size_t partner = m.pair.a == culprit.index ? m.pair.b : m.pair.a;
    if (!bad(m.finding) || world.nodes[partner].leaf != world.nodes[culprit.index].leaf) continue;
    EXPECT_GE(m.finding == Finding::slow ? m.samples : 5U, 5U);
    if (!has_fast_partner(partner)) continue;
    good.insert(world.nodes[partner].name);
    fresh = anew;
    ++times;
  }
  EXPECT_TRUE(fresh);
  EXPECT_GE(good.size(), 2U);
  EXPECT_GE(times, world.hung.count(culprit.index) != 0 ? 2U : 3U);
  std::set<std::string> said;
  for (const Partner& p : culprit.partners) said.insert(p.node);
  EXPECT_EQ(said, good);
  EXPECT_TRUE(world.at_fault(culprit.index)) << "an innocent is accused";
  EXPECT_EQ(culprit.cls, world.hung.count(culprit.index) != 0 ? verdict::Class::hung : verdict::Class::slow);
}

}  // namespace

World World::of(std::size_t n, const std::vector<std::string>& leaves) {
  World world;
  for (std::size_t i = 0; i < n; ++i)
    world.nodes.push_back({fmt::format("n{}", i + 1), leaves.empty() ? "" : leaves.at(i)});
  return world;
}

Measurement World::measure(Pair pair) const {
  for (const std::size_t node : {pair.a, pair.b}) {
    if (crashing.count(node) != 0) return {pair, Finding::failed, 0, 0, {node}};
  }
  if (hung.count(pair.a) + hung.count(pair.b) > 0) return {pair, Finding::hung, 0, 0, {}};
  const Node& a = nodes[pair.a];
  const Node& b = nodes[pair.b];
  const bool slow_link = a.leaf != b.leaf && slow_uplinks.count(a.leaf) + slow_uplinks.count(b.leaf) > 0;
  const bool slow_path = slow_paths.count({pair.a, pair.b}) + slow_paths.count({pair.b, pair.a}) > 0;
  if (slow.count(pair.a) + slow.count(pair.b) > 0 || slow_link || slow_path)
    return {pair, Finding::slow, 11.2, 6, {}};
  return {pair, Finding::fast, 46, 3, {}};
}

int Search::count(Stage stage) const {
  int out = 0;
  for (const Round& round : rounds) out += round.stage == stage ? 1 : 0;
  return out;
}

Search search(const World& world, std::size_t stop_after) {
  Search out;
  Localization localization(world.nodes, world.settings);
  while (out.log.size() < stop_after) {
    const auto round = localization.next_round();
    if (!round) break;
    check_round(world, *round, out);
    out.rounds.push_back(*round);
    EXPECT_LE(out.rounds.size(), 19U);
    for (const Pair& pair : round->pairs) {
      if (out.log.size() == stop_after) break;
      const Measurement& m = out.log.emplace_back(world.measure(pair), round->fresh).first;
      out.met.insert(std::minmax(pair.a, pair.b));
      out.lost.insert(m.lost.begin(), m.lost.end());
      const Status status = localization.record(m);
      EXPECT_TRUE(status) << status.error().text();
    }
  }
  out.outcome = localization.outcome();
  for (const Suspect& culprit : out.outcome.culprits) check_culprit(world, culprit, out);
  EXPECT_EQ(out.outcome.kind == Kind::culprit, !out.outcome.culprits.empty());
  EXPECT_FALSE(out.outcome.summary.empty());
  EXPECT_EQ(out.outcome.culprits.size() + out.outcome.unresolved.size() + out.outcome.cleared.size() +
                out.outcome.missing.size(),
            world.nodes.size());
  for (const Suspect& s : out.outcome.unresolved) EXPECT_FALSE(s.why.empty()) << s.node;
  return out;
}

std::vector<std::string> culprits(const Outcome& outcome) {
  std::vector<std::string> out;
  for (const Suspect& s : outcome.culprits) out.push_back(s.node);
  return out;
}

std::vector<std::string> unresolved(const Outcome& outcome) {
  std::vector<std::string> out;
  for (const Suspect& s : outcome.unresolved) out.push_back(s.node);
  return out;
}

std::vector<std::string> paths(const Outcome& outcome) {
  std::vector<std::string> out;
  for (const Path& p : outcome.paths) out.push_back(p.name);
  return out;
}

std::vector<std::string> named(const World& world, const std::set<std::size_t>& nodes) {
  return named(world, std::vector<std::size_t>(nodes.begin(), nodes.end()));
}

std::vector<std::string> named(const World& world, const std::vector<std::size_t>& nodes) {
  std::vector<std::string> out;
  for (const std::size_t node : nodes) out.push_back(world.nodes[node].name);
  return out;
}

}  // namespace nccl_check::localization
