#include "job/localization/schedule.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace nccl_check::localization {
namespace {

// The element nearest to `at` that fits, walking outwards; the next before the previous one.
template <class Fits>
std::optional<std::size_t> nearest(const std::set<std::size_t>& from, std::size_t at, Fits fits) {
  auto right = from.lower_bound(at);
  auto left = right;
  while (left != from.begin() || right != from.end()) {
    const bool go_left = left != from.begin() && (right == from.end() || at - *std::prev(left) < *right - at);
    const std::size_t found = go_left ? *--left : *right++;
    if (fits(found)) return found;
  }
  return std::nullopt;
}

// Pairs inside one group, by places in its list.
class Inside {
 public:
  Inside(const Ledger& ledger, const Group& group) : ledger_(ledger), group_(group) {}

  void help(std::size_t place) { helpers_.insert(place); }

  // With the helper nearest to `around` that it has not met; `again`: else with one that it has. No helper
  // serves twice.
  void pair_with_helper(std::size_t place, std::size_t around, bool again, std::vector<Pair>& out) {
    auto found = nearest(helpers_, around, [&](std::size_t other) { return untried(place, other); });
    if (!found && again) found = nearest(helpers_, around, [](std::size_t) { return true; });
    if (!found) {
      waiting_.insert(place);
      return;
    }
    helpers_.erase(*found);
    out.push_back({group_.members[place], group_.members[*found]});
  }

  // Those who got no helper, each with the nearest other one that it has not met.
  void pair_waiting(std::vector<Pair>& out) {
    while (!waiting_.empty()) {
      const std::size_t place = *waiting_.begin();
      waiting_.erase(waiting_.begin());
      const auto found = nearest(waiting_, place, [&](std::size_t other) { return untried(place, other); });
      if (!found) continue;
      waiting_.erase(*found);
      out.push_back({group_.members[place], group_.members[*found]});
    }
  }

 private:
  [[nodiscard]] bool untried(std::size_t place, std::size_t other) const {
    return !ledger_.tried(group_.members[place], group_.members[other]);
  }

  const Ledger& ledger_;
  const Group& group_;
  std::set<std::size_t> helpers_;
  std::set<std::size_t> waiting_;
};

bool has_witness(const Ledger& ledger, const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](std::size_t node) { return ledger.witness(node); });
}

// Something inside the leaves explains that the nodes together are not fast.
bool found_inside(const Ledger& ledger) {
  for (std::size_t node = 0; node < ledger.size(); ++node) {
    if (ledger.accused(node)) return true;
    if (!ledger.cleared(node)) continue;
    for (const Entry& e : ledger.entries(node)) {
      if (e.own && bad(e.finding) && ledger.cleared(e.partner)) return true;
    }
  }
  return false;
}

// What a group's members found out with other groups.
struct Reach {
  bool fast = false;
  std::set<std::size_t> slow_with;
};
Reach reach_of(const Ledger& ledger, const std::vector<std::size_t>& members) {
  Reach out;
  for (const std::size_t node : members) {
    for (const Entry& e : ledger.entries(node)) {
      if (e.own) continue;
      out.fast = out.fast || e.finding == Finding::fast;
      if (bad(e.finding)) out.slow_with.insert(ledger.group_of(e.partner));
    }
  }
  return out;
}

class Across {
 public:
  Across(const Ledger& ledger, std::size_t at_once)
      : ledger_(ledger),
        left_(ledger.groups().size(), at_once),
        speakers_(left_.size()),
        busy_(ledger.size()) {
    const bool explained = found_inside(ledger);
    for (std::size_t g = 0; g < left_.size(); ++g) {
      const Group& group = ledger.groups()[g];
      const Reach reach = reach_of(ledger, group.members);
      const auto cleared = helper_of(g);
      if (cleared) helping_.insert(g);
      if (cleared && reach.fast) proven_.insert(g);
      if (!ledger.most_accused(group)) add_unsettled(g);
      // One for the leaf itself; slow with two other leaves is enough to know.
      if (!explained && cleared && !reach.fast && reach.slow_with.size() < 2 && speakers_[g].size() < at_once)
        speakers_[g].push_back(*cleared);
      if (!speakers_[g].empty()) speaking_.insert(g);
    }
  }

  std::vector<Pair> plan() {
    for (std::size_t g = 0; g < speakers_.size(); ++g) {
      for (const std::size_t node : speakers_[g]) {
        if (busy_[node] || left_[g] == 0) continue;
        // A node wants a partner that is known to be good; a leaf's speaker wants a leaf that is, else its
        // neighbour.
        auto partner = helper_in(proven_, node);
        if (!partner && !ledger_.cleared(node)) partner = helper_in(helping_, node);
        if (!partner) partner = other_speaker(node);
        if (!partner) partner = helper_in(helping_, node);
        if (partner) take(node, *partner);
      }
    }
    return std::move(out_);
  }

 private:
  // Whoever has not crossed yet comes first; slow with two other leaves is enough to know of a node too.
  void add_unsettled(std::size_t g) {
    std::vector<std::size_t> again;
    for (const std::size_t node : ledger_.groups()[g].members) {
      if (ledger_.lost(node) || ledger_.cleared(node) || ledger_.accused(node)) continue;
      const std::size_t slow_with = reach_of(ledger_, {node}).slow_with.size();
      if (slow_with == 0 && speakers_[g].size() < left_[g]) speakers_[g].push_back(node);
      if (slow_with == 1 && left_.size() > 2) again.push_back(node);
    }
    const std::size_t room = std::min(left_[g] - speakers_[g].size(), again.size());
    speakers_[g].insert(speakers_[g].end(), again.begin(), again.begin() + static_cast<std::ptrdiff_t>(room));
  }

  [[nodiscard]] std::optional<std::size_t> helper_of(std::size_t g) const {
    for (const std::size_t node : ledger_.groups()[g].members) {
      if (ledger_.cleared(node) && !ledger_.lost(node) && !busy_[node]) return node;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::size_t> helper_in(const std::set<std::size_t>& groups,
                                                     std::size_t node) const {
    const std::size_t own = ledger_.group_of(node);
    const auto g = nearest(groups, own, [&](std::size_t other) {
      return other != own && !ledger_.tried_group(node, other) && helper_of(other);
    });
    return g ? helper_of(*g) : std::nullopt;
  }

  [[nodiscard]] std::optional<std::size_t> waiting_speaker(std::size_t g) const {
    for (const std::size_t node : speakers_[g]) {
      if (!busy_[node]) return node;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::size_t> other_speaker(std::size_t node) const {
    const std::size_t own = ledger_.group_of(node);
    const auto g = nearest(speaking_, own, [&](std::size_t other) {
      return other != own && !ledger_.tried_group(node, other) && waiting_speaker(other);
    });
    return g ? waiting_speaker(*g) : std::nullopt;
  }

  void take(std::size_t a, std::size_t b) {
    out_.push_back({a, b});
    for (const std::size_t node : {a, b}) {
      busy_[node] = true;
      const std::size_t g = ledger_.group_of(node);
      if (--left_[g] > 0) continue;
      for (auto* groups : {&proven_, &helping_, &speaking_}) groups->erase(g);
    }
  }

  const Ledger& ledger_;
  std::vector<std::size_t> left_;                   // pairs that may still cross the group's uplinks
  std::vector<std::vector<std::size_t>> speakers_;  // of each group: who has something to find out
  std::vector<bool> busy_;
  std::set<std::size_t> proven_, helping_, speaking_;
  std::vector<Pair> out_;
};

}  // namespace

std::vector<Pair> plan_inside(const Ledger& ledger, int round, int fruitless) {
  std::vector<Pair> out;
  for (const Group& group : ledger.groups()) {
    if (round > fruitless && !has_witness(ledger, group)) continue;
    if (ledger.most_accused(group)) continue;
    Inside inside(ledger, group);
    std::vector<std::size_t> suspects;
    std::vector<std::size_t> unmeasured;
    for (std::size_t place = 0; place < group.members.size(); ++place) {
      const std::size_t node = group.members[place];
      if (ledger.lost(node) || ledger.accused(node)) continue;
      if (ledger.cleared(node)) {
        inside.help(place);
      } else {
        (ledger.suspect(node) ? suspects : unmeasured).push_back(place);
      }
    }
    for (const auto* places : {&suspects, &unmeasured}) {
      for (const std::size_t place : *places) inside.pair_with_helper(place, place, false, out);
    }
    inside.pair_waiting(out);
  }
  return out;
}

std::vector<Pair> plan_across(const Ledger& ledger, std::size_t at_once) {
  if (ledger.groups().size() < 2 || at_once == 0) return {};
  return Across(ledger, at_once).plan();
}

Beside beside(const Ledger& ledger, std::size_t node) {
  constexpr int most_doubtful = 3;
  Beside out;
  const std::vector<std::size_t>& list = ledger.groups()[ledger.group_of(node)].members;
  for (const int step : {-1, 1}) {
    int doubtful = 0;
    std::size_t place = ledger.place_of(node);
    while (step > 0 ? place + 1 < list.size() : place > 0) {
      place = step > 0 ? place + 1 : place - 1;
      if (ledger.lost(list[place])) continue;
      if (!ledger.cleared(list[place]) && ++doubtful > most_doubtful) {
        out.ends = false;
        break;
      }
      out.nodes.push_back(list[place]);
      if (ledger.cleared(list[place])) break;
    }
  }
  return out;
}

std::vector<Pair> plan_confirm(const Ledger& ledger) {
  std::vector<Pair> out;
  for (const Group& group : ledger.groups()) {
    const bool unknown = group.leaf.empty();
    const bool most = ledger.most_accused(group);
    std::vector<bool> busy(group.members.size());
    for (const std::size_t node : group.members) {
      if (!unknown || busy[ledger.place_of(node)] || !ledger.accused(node)) continue;
      for (const std::size_t other : beside(ledger, node).nodes) {
        if (busy[ledger.place_of(other)] || ledger.tried(node, other)) continue;
        busy[ledger.place_of(node)] = busy[ledger.place_of(other)] = true;
        out.push_back({node, other});
        break;
      }
    }
    if (most) continue;
    Inside inside(ledger, group);
    for (const std::size_t node : group.members) {
      if (ledger.witness(node) && !busy[ledger.place_of(node)]) inside.help(ledger.place_of(node));
    }
    const std::size_t far = unknown ? group.members.size() / 2 : 0;
    for (const std::size_t node : group.members) {
      const std::size_t place = ledger.place_of(node);
      if (busy[place] || !ledger.accused(node) || ledger.confirmed(node)) continue;
      inside.pair_with_helper(place, (place + far) % group.members.size(), true, out);
    }
  }
  return out;
}

}  // namespace nccl_check::localization
