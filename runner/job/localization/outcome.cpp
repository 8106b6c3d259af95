#include "job/localization/outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "job/localization/schedule.hpp"

namespace nccl_check::localization {
namespace {

constexpr std::size_t most_names = 4;  // of partners, in a text

verdict::Class class_of(Finding finding) {
  if (finding == Finding::hung) return verdict::Class::hung;
  return finding == Finding::corrupt ? verdict::Class::corrupt : verdict::Class::slow;
}

verdict::Class milder(verdict::Class a, verdict::Class b) {
  return verdict::worse(a, b) == a ? b : a;
}

std::string names(std::vector<std::string> all) {
  if (all.size() == 1) return all[0];
  std::string last = all.back();
  all.pop_back();
  if (all.size() >= most_names) {
    last = fmt::format("{} more", all.size() + 1 - most_names);
    all.resize(most_names);
  }
  return fmt::format("{} and {}", fmt::join(all, ", "), last);
}

std::string finding_text(verdict::Class cls, double busbw) {
  const std::string_view operation = verdict::name(verdict::Operation::send_recv);
  if (cls == verdict::Class::hung) return fmt::format("{} hung", operation);
  if (cls == verdict::Class::corrupt) return fmt::format("{} gave wrong data", operation);
  return fmt::format("{} {} GB/s", operation, format_rate(busbw));
}

class Reading {
 public:
  Reading(const std::vector<Node>& nodes, const Ledger& ledger, verdict::Class all_nodes, bool stopped)
      : nodes_(nodes),
        ledger_(ledger),
        all_nodes_(all_nodes),
        stopped_(stopped),
        most_(ledger.most_suspect()) {
    for (const Group& g : ledger.groups()) too_many_.push_back(ledger.too_many(g));
  }

  Outcome outcome() {
    for (std::size_t node = 0; node < nodes_.size(); ++node) sort(node);
    leaves();
    paths();
    judge();
    return std::move(out_);
  }

 private:
  void sort(std::size_t node) {
    if (ledger_.lost(node)) {
      out_.missing.push_back(node);
    } else if (ledger_.cleared(node)) {
      out_.cleared.push_back(node);
    } else if (std::string why = why_not_to_blame(node); why.empty()) {
      out_.culprits.push_back(suspect(node, true));
    } else {
      out_.unresolved.push_back(suspect(node, false));
      out_.unresolved.back().why = std::move(why);
    }
  }

  [[nodiscard]] const Group& group(std::size_t node) const {
    return ledger_.groups()[ledger_.group_of(node)];
  }

  // Empty where the rule is met.
  [[nodiscard]] std::string why_not_to_blame(std::size_t node) const {
    if (ledger_.accused(node)) {
      if (most_) return "as most nodes of the job";
      const bool unknown = group(node).leaf.empty();
      if (too_many_[ledger_.group_of(node)])
        return unknown ? "so many slow nodes or paths, leaf switches unknown"
                       : "as most nodes of its leaf switch";
      if (!ledger_.confirmed(node)) return "not measured again with another good partner and fresh workers";
      if (!unknown) return "";
      const Beside near = beside(ledger_, node);
      for (const std::size_t other : near.nodes) {
        if (!ledger_.tried(node, other))
          return fmt::format("not measured with {} beside it", nodes_[other].name);
      }
      return near.ends ? "" : "so many slow nodes side by side, leaf switches unknown";
    }
    if (!ledger_.suspect(node)) {
      const auto& all = ledger_.entries(node);
      const bool any = std::any_of(all.begin(), all.end(), [](const Entry& e) { return bad(e.finding); });
      if (any) return "not fast with other leaf switches, no partner on its own";
      return stopped_ ? "not measured in time" : "no partner to measure with";
    }
    if (stopped_) return "no second good partner in time";
    return fmt::format("no two good partners {}", group(node).leaf.empty()
                                                      ? "among the nodes"
                                                      : "on its leaf switch " + group(node).leaf);
  }

  // What is said of a node: with whom it was bad. Of a culprit the witnesses alone.
  [[nodiscard]] Suspect suspect(std::size_t node, bool culprit) const {
    Suspect out;
    out.index = node;
    out.node = nodes_[node].name;
    out.cls = verdict::Class::untested;
    for (const Entry& e : ledger_.entries(node)) {
      if (!bad(e.finding) || ledger_.lost(e.partner)) continue;
      if (culprit && !(e.own && ledger_.witness(e.partner))) continue;
      const verdict::Class cls = class_of(e.finding);
      out.cls = out.partners.empty() ? cls : milder(out.cls, cls);
      out.busbw = std::max(out.busbw, e.busbw);
      const auto& name = nodes_[e.partner].name;
      const auto same = std::find_if(out.partners.begin(), out.partners.end(),
                                     [&](const Partner& p) { return p.node == name; });
      if (same == out.partners.end()) {
        out.partners.push_back({name, cls, e.busbw, e.own});
      } else {
        same->cls = milder(same->cls, cls);
        same->busbw = std::max(same->busbw, e.busbw);
      }
    }
    if (out.partners.empty()) return out;
    std::vector<std::string> with;
    for (const Partner& p : out.partners) with.push_back(p.node);
    out.measured = fmt::format("{} with {}", finding_text(out.cls, out.busbw), names(with));
    return out;
  }

  // Whole leaves: most of one's nodes, or its uplinks.
  void leaves() {
    uplinks_.resize(ledger_.groups().size());
    for (std::size_t g = 0; g < ledger_.groups().size(); ++g) {
      const Group& leaf = ledger_.groups()[g];
      if (leaf.leaf.empty() || most_) continue;
      if (too_many_[g]) {
        const std::string name = "leaf switch " + leaf.leaf;
        out_.paths.push_back({name, all_nodes_, 0, name + ": most of its nodes are slow with each other"});
      } else if (auto path = slow_uplinks(leaf)) {
        uplinks_[g] = true;
        out_.paths.push_back(std::move(*path));
      }
    }
  }

  [[nodiscard]] bool path_between_good(std::size_t node, const Entry& e) const {
    return bad(e.finding) && ledger_.cleared(node) && ledger_.cleared(e.partner) && !ledger_.lost(node) &&
           !ledger_.lost(e.partner);
  }

  [[nodiscard]] std::optional<Path> slow_uplinks(const Group& leaf) const {
    std::map<std::size_t, bool> others;
    Path path{"uplinks of leaf switch " + leaf.leaf, verdict::Class::corrupt, 0, ""};
    for (const std::size_t node : leaf.members) {
      for (const Entry& e : ledger_.entries(node)) {
        if (e.own) continue;
        if (e.finding == Finding::fast) return std::nullopt;
        if (!path_between_good(node, e)) continue;
        others[ledger_.group_of(e.partner)] = true;
        path.cls = milder(path.cls, class_of(e.finding));
        path.busbw = std::max(path.busbw, e.busbw);
      }
    }
    if (others.size() < 2) return std::nullopt;
    path.text = fmt::format("{}: {}, its nodes are fast with each other", path.name,
                            finding_text(path.cls, path.busbw));
    return path;
  }

  // Pairs of good nodes, but for those that a leaf's uplinks explain.
  void paths() {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> known;
    for (const std::size_t node : out_.cleared) {
      for (const Entry& e : ledger_.entries(node)) {
        if (e.partner < node || !path_between_good(node, e)) continue;
        if (!e.own && (uplinks_[ledger_.group_of(node)] || uplinks_[ledger_.group_of(e.partner)])) continue;
        const auto [at, is_new] = known.try_emplace({node, e.partner}, out_.paths.size());
        if (is_new)
          out_.paths.push_back(
              {nodes_[node].name + "-" + nodes_[e.partner].name, class_of(e.finding), 0, ""});
        Path& path = out_.paths[at->second];
        path.cls = milder(path.cls, class_of(e.finding));
        path.busbw = std::max(path.busbw, e.busbw);
        path.text =
            fmt::format("{}: {}, both are fast with others", path.name, finding_text(path.cls, path.busbw));
      }
    }
  }

  void judge() {
    const auto say = [&](Kind kind, std::string summary) {
      out_.kind = kind;
      out_.summary = std::move(summary);
    };
    const std::string_view how = verdict::name(all_nodes_);
    const auto suspects =
        static_cast<std::size_t>(std::count_if(out_.unresolved.begin(), out_.unresolved.end(),
                                               [](const Suspect& s) { return !s.partners.empty(); }));
    if (nodes_.size() < 2) return say(Kind::one_node, "one node: nothing lies between nodes");
    if (!out_.culprits.empty()) {
      std::vector<std::string> who;
      verdict::Class worst = verdict::Class::slow;
      for (const Suspect& s : out_.culprits) {
        who.push_back(s.node);
        worst = verdict::worse(worst, s.cls);
      }
      return say(Kind::culprit, fmt::format("{} with good partners: {}", verdict::name(worst), names(who)));
    }
    if (suspects == 2 && out_.cleared.empty())
      return say(Kind::path_or_site, fmt::format("{} and {} are {} together: the path, or the site",
                                                 out_.unresolved[0].node, out_.unresolved[1].node, how));
    if (suspects > 0 && out_.cleared.empty())
      return say(Kind::path_or_site, "no pair is fast: the path, or the site");
    if (most_) return say(Kind::site, fmt::format("most nodes are {}: the site", how));
    if (ledger_.groups().size() == 1 && too_many_[0] && 2 * out_.paths.size() < suspects)
      return say(Kind::site, fmt::format("{} of {} nodes are {}, leaf switches unknown: the site, or paths",
                                         suspects, nodes_.size(), how));
    if (!out_.paths.empty())
      return say(Kind::path, fmt::format("{}{}", out_.paths[0].text,
                                         out_.paths.size() == 1
                                             ? ""
                                             : fmt::format(", and {} more paths", out_.paths.size() - 1)));
    if (!out_.cleared.empty() && out_.unresolved.empty())
      return say(Kind::path_or_site,
                 fmt::format("every pair is fast, all nodes together are {}: the path, or the site", how));
    return say(Kind::unresolved,
               stopped_ ? "stopped before it was found who it is" : "too few partners to find who it is");
  }

  const std::vector<Node>& nodes_;
  const Ledger& ledger_;
  verdict::Class all_nodes_;
  bool stopped_;
  bool most_;
  std::vector<bool> too_many_;
  std::vector<bool> uplinks_;  // of each group: named as a path
  Outcome out_;
};

}  // namespace

Outcome conclude(const std::vector<Node>& nodes, const Ledger& ledger, verdict::Class all_nodes,
                 bool stopped) {
  return Reading(nodes, ledger, all_nodes, stopped).outcome();
}

}  // namespace nccl_check::localization
