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
  return c.witnesses >= 2 && c.again_fresh;
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

bool Ledger::most_accused() const {
  Group all;
  for (std::size_t i = 0; i < size(); ++i) all.members.push_back(i);
  return most_accused(all);
}

Ledger::Count Ledger::count(std::size_t node) const {
  Count out;
  const auto& all = states_[node].entries;
  bool found_before = false;
  for (auto entry = all.begin(); entry != all.end(); ++entry) {
    if (!bad(entry->finding) || !entry->own || lost(entry->partner)) continue;
    out.again_fresh = out.again_fresh || (found_before && entry->fresh);
    found_before = true;
    const bool seen = std::any_of(
        all.begin(), entry, [&](const Entry& e) { return bad(e.finding) && e.partner == entry->partner; });
    if (seen) continue;
    ++out.partners;
    if (witness(entry->partner)) ++out.witnesses;
  }
  return out;
}

}  // namespace nccl_check::localization
