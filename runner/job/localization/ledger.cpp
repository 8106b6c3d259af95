#include "job/localization/ledger.hpp"

#include <algorithm>
#include <map>

namespace nccl_check::localization {

Ledger::Ledger(const std::vector<Node>& nodes) : states_(nodes.size()) {
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(nodes[i].leaf, groups_.size());
    if (is_new) groups_.push_back({nodes[i].leaf, {}});
    states_[i].group = at->second;
    states_[i].place = groups_[at->second].members.size();
    groups_[at->second].members.push_back(i);
  }
}

void Ledger::add(Pair pair, Finding finding, double busbw, bool fresh) {
  const bool own = group_of(pair.a) == group_of(pair.b);
  for (const auto& [node, partner] : {std::pair{pair.a, pair.b}, std::pair{pair.b, pair.a}}) {
    State& state = states_[node];
    state.entries.push_back({partner, finding, busbw, fresh, own});
    if (finding != Finding::fast) continue;
    state.fast = true;
    state.fast_own = state.fast_own || own;
  }
}

bool Ledger::tried(std::size_t node, std::size_t partner) const {
  const auto& all = states_[node].entries;
  return std::any_of(all.begin(), all.end(), [&](const Entry& e) { return e.partner == partner; });
}

bool Ledger::tried_group(std::size_t node, std::size_t group) const {
  const auto& all = states_[node].entries;
  return std::any_of(all.begin(), all.end(), [&](const Entry& e) { return group_of(e.partner) == group; });
}

bool Ledger::suspect(std::size_t node) const {
  const State& state = states_[node];
  return !state.lost && !state.fast && count(node).partners > 0;
}

bool Ledger::accused(std::size_t node) const {
  if (states_[node].lost || states_[node].fast) return false;
  const Count c = count(node);
  return c.partners >= 2 && c.witnesses >= 1;
}

bool Ledger::confirmed(std::size_t node) const {
  if (!accused(node)) return false;
  const Count c = count(node);
  return c.witnesses >= 2 && c.measurements >= (c.slow ? 3 : 2) && c.fresh;
}

bool Ledger::most_accused(const Group& group) const {
  std::size_t measured = 0;
  std::size_t accused_ones = 0;
  for (const std::size_t node : group.members) {
    if (lost(node)) continue;
    if (cleared(node) || suspect(node)) ++measured;
    if (accused(node)) ++accused_ones;
  }
  return 2 * accused_ones > measured;
}

bool Ledger::too_many(const Group& group) const {
  std::size_t measured = 0;
  std::size_t suspects = 0;
  std::size_t accused_ones = 0;
  std::size_t slow_ends = 0;  // of pairs of cleared nodes
  std::size_t fast_ends = 0;
  for (const std::size_t node : group.members) {
    if (lost(node)) continue;
    if (cleared(node) || suspect(node)) ++measured;
    if (suspect(node)) ++suspects;
    if (accused(node)) ++accused_ones;
    if (!cleared(node)) continue;
    for (const Entry& e : states_[node].entries) {
      if (!e.own || !cleared(e.partner) || lost(e.partner)) continue;
      if (bad(e.finding)) ++slow_ends;
      if (e.finding == Finding::fast) ++fast_ends;
    }
  }
  if (2 * suspects > measured) return true;
  if (!group.leaf.empty()) return false;
  return (suspects > 4 && 4 * suspects > measured) ||
         (slow_ends / 2 > accused_ones + 2 && 8 * slow_ends > fast_ends);
}

bool Ledger::most_suspect() const {
  std::size_t measured = 0;
  std::size_t suspects = 0;
  for (std::size_t node = 0; node < size(); ++node) {
    if (suspect(node)) ++suspects;
    if (!lost(node) && (cleared(node) || suspect(node))) ++measured;
  }
  return 2 * suspects > measured;
}

Ledger::Count Ledger::count(std::size_t node) const {
  Count out;
  const auto& all = states_[node].entries;
  for (auto entry = all.begin(); entry != all.end(); ++entry) {
    if (!bad(entry->finding) || !entry->own || lost(entry->partner)) continue;
    const bool good = witness(entry->partner);
    if (good) {
      ++out.measurements;
      out.slow = out.slow || entry->finding == Finding::slow;
      out.fresh = entry->fresh;
    }
    const bool seen = std::any_of(
        all.begin(), entry, [&](const Entry& e) { return bad(e.finding) && e.partner == entry->partner; });
    if (seen) continue;
    ++out.partners;
    if (good) ++out.witnesses;
  }
  return out;
}

}  // namespace nccl_check::localization
