#include "cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace nccl_check::simulation {
namespace {

constexpr std::size_t leaf_size = 32;

double between(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
std::size_t below(Random& random, std::size_t n) {
  return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}

// How the job's nodes lie in the cluster.
enum class Layout {
  packed,      // leaf after leaf, each full
  fragmented,  // what other jobs left over: one to five a leaf
  in_twos,     // two to five a leaf
};

std::vector<std::size_t> lay_out(std::size_t n, Layout layout, Random& random) {
  std::vector<std::size_t> out;
  for (std::size_t leaf = 0; out.size() < n; ++leaf) {
    std::size_t here = leaf_size;
    if (layout == Layout::fragmented) here = 1 + below(random, 5);
    if (layout == Layout::in_twos) here = 2 + below(random, 4);
    for (; here > 0 && out.size() < n; --here) out.push_back(leaf);
  }
  return out;
}

struct Plan {
  Layout layout = Layout::packed;
  std::size_t uplinks = leaf_size;  // 32: no taper; 16: 2:1
  Routing routing = Routing::adaptive;
  bool known = true;        // Slurm knows the leaves
  bool half_leaf = false;   // one leaf's uplinks at half speed
  bool bad_uplink = false;  // one uplink at a tenth
  double bad_paths = 0;     // share of neighbours whose path is at 0.3
  double dip = 0;           // chance of one in an iteration
  double dip_length = 2;    // iterations, on average
  bool shuffled = false;    // the job's list is in no order
  bool half_bad = false;    // one leaf has three bad nodes of five
  bool limit = false;       // shown, not judged
};

// Where leaves are unknown and uplinks slow, a node that is the only good one of the job on its leaf is slow
// with everybody, and nothing measured within the job tells it from a slow node. The judged cases have two
// good ones on each leaf, and no leaf that is mostly bad; what happens without is shown as a limit.
bool mostly_good_leaves(const Plan& plan) {
  return plan.half_leaf && !plan.known && !plan.limit;
}

void make_mostly_good(const std::vector<std::size_t>& leaf_of, std::set<std::size_t>& bad) {
  std::map<std::size_t, std::size_t> all;
  std::map<std::size_t, std::size_t> good;
  for (std::size_t i = 0; i < leaf_of.size(); ++i) {
    ++all[leaf_of[i]];
    good[leaf_of[i]] += 1 - bad.count(i);
  }
  for (std::size_t i = 0; i < leaf_of.size(); ++i) {
    const std::size_t leaf = leaf_of[i];
    if (good[leaf] < 2 || 2 * good[leaf] < all[leaf]) good[leaf] += bad.erase(i);
  }
}

Scenario build(const Plan& plan, std::size_t n, double bad_share, Random& random) {
  std::vector<std::size_t> leaf_of = lay_out(n, plan.layout, random);
  if (mostly_good_leaves(plan) && n >= 3 && leaf_of[n - 1] != leaf_of[n - 2]) leaf_of[n - 1] = leaf_of[n - 2];
  if (plan.shuffled) std::shuffle(leaf_of.begin(), leaf_of.end(), random);
  Scenario out{Fabric(leaf_of, plan.uplinks, plan.routing, random()),
               {},
               {},
               between(random, 0.01, 0.02),
               plan.dip,
               plan.dip_length};
  for (std::size_t i = 0; i < n; ++i)
    out.nodes.push_back({fmt::format("n{}", i + 1), plan.known ? fmt::format("s{}", leaf_of[i]) : ""});
  for (std::size_t i = 0; i < n; ++i) {
    if (between(random, 0, 1) < bad_share) out.bad.insert(i);
  }
  if (bad_share > 0 && out.bad.empty()) out.bad.insert(below(random, n));
  if (plan.half_bad) {
    const std::size_t leaf = below(random, out.fabric.leaves());
    for (std::size_t i = 0; i < n; ++i) {
      if (leaf_of[i] == leaf && i % 5 < 3) out.bad.insert(i);
    }
  }
  if (mostly_good_leaves(plan)) make_mostly_good(leaf_of, out.bad);
  for (const std::size_t node : out.bad) out.fabric.slow_node(node, between(random, 0.2, 0.9));
  if (plan.half_leaf) out.fabric.slow_leaf(below(random, out.fabric.leaves()), 0.5);
  if (plan.bad_uplink)
    out.fabric.slow_uplink(below(random, out.fabric.leaves()), below(random, plan.uplinks), 0.1);
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (plan.bad_paths == 0 || between(random, 0, 1) >= plan.bad_paths) continue;
    out.fabric.slow_path(i, i + 1, 0.3);
    ++i;  // no node has two: where all its paths are slow, nothing tells that from a slow node
  }
  return out;
}

Case make(std::string name, const Plan& plan) {
  return {std::move(name), !plan.limit, [plan](std::size_t n, double bad_share, Random& random) {
            return build(plan, n, bad_share, random);
          }};
}

}  // namespace

std::vector<Case> cases() {
  using enum Layout;
  constexpr Routing ecmp = Routing::ecmp;
  return {
      make("leaf-spine", {}),
      make("leaf-spine, leaves unknown", {.known = false}),
      make("2:1 taper", {.uplinks = 16}),
      make("half-speed leaf", {.half_leaf = true}),
      make("half-speed leaf, 2:1, leaves unknown", {.uplinks = 16, .known = false, .half_leaf = true}),
      make("static ECMP", {.routing = ecmp}),
      make("ECMP, 2:1, half-speed leaf", {.uplinks = 16, .routing = ecmp, .half_leaf = true}),
      make("ECMP, 2:1, half leaf, leaves unknown",
           {.uplinks = 16, .routing = ecmp, .known = false, .half_leaf = true}),
      make("ECMP, one uplink at a tenth", {.routing = ecmp, .bad_uplink = true}),
      make("slow paths, 2 % of neighbours", {.bad_paths = 0.02}),
      make("dips in 1 % of iterations, two long", {.dip = 0.01}),
      make("fragmented job, half-speed leaf, ECMP",
           {.layout = fragmented, .uplinks = 16, .routing = ecmp, .half_leaf = true}),
      make("fragmented in twos, the same, leaves unknown",
           {.layout = in_twos, .uplinks = 16, .routing = ecmp, .known = false, .half_leaf = true}),
      make("three of five bad in one leaf", {.half_bad = true}),
      make("limit: dips in 1 % of iterations, ten long", {.dip = 0.01, .dip_length = 10, .limit = true}),
      make("limit: alone on a half-speed leaf, leaves unknown", {.layout = fragmented,
                                                                 .uplinks = 16,
                                                                 .routing = ecmp,
                                                                 .known = false,
                                                                 .half_leaf = true,
                                                                 .limit = true}),
      make("limit: list in no order, ECMP 2:1, leaves unknown",
           {.uplinks = 16, .routing = ecmp, .known = false, .shuffled = true, .limit = true}),
  };
}

}  // namespace nccl_check::simulation
