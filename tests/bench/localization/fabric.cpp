#include "fabric.hpp"

#include <algorithm>
#include <queue>

namespace nccl_check::simulation {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finish
  x ^= x >> 30U;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27U;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

Fabric::Fabric(std::vector<std::size_t> leaf_of, std::size_t uplinks, Routing routing,
               std::uint64_t hash_seed)
    : leaf_of_(std::move(leaf_of)), uplinks_(uplinks), routing_(routing), hash_seed_(hash_seed), leaves_(0) {
  for (const std::size_t leaf : leaf_of_) leaves_ = std::max(leaves_, leaf + 1);
  node_.assign(leaf_of_.size(), 1);
  const double rate = routing == Routing::adaptive ? static_cast<double>(uplinks) : 1;
  uplink_.assign(leaves_ * links_of_leaf(), rate);
}

void Fabric::slow_leaf(std::size_t leaf, double factor) {
  for (std::size_t link = 0; link < links_of_leaf(); ++link) uplink_[leaf * links_of_leaf() + link] *= factor;
}

void Fabric::slow_uplink(std::size_t leaf, std::size_t uplink, double factor) {
  if (routing_ == Routing::ecmp) {
    uplink_[leaf * uplinks_ + uplink] *= factor;
  } else {
    uplink_[leaf] -= 1 - factor;
  }
}

void Fabric::slow_path(std::size_t a, std::size_t b, double rate) {
  paths_[{a, b}] = paths_[{b, a}] = rate;
}

std::size_t Fabric::uplink_of(const Flow& flow) const {
  if (routing_ == Routing::adaptive) return 0;
  return mix(mix(flow.from + hash_seed_) ^ (flow.to * 0x9e3779b97f4a7c15U)) % uplinks_;
}

std::vector<double> Fabric::rates(const std::vector<Flow>& flows) const {
  // Resources: each node's link out and in, each uplink up and down, and the paths that have a rate of their
  // own.
  struct Resource {
    double left = 0;
    std::size_t waiting = 0;
    std::vector<std::size_t> flows;
    [[nodiscard]] double share() const { return left / static_cast<double>(waiting); }
  };
  const std::size_t n = node_.size();
  std::vector<Resource> resources(2 * n + 2 * uplink_.size());
  std::vector<std::vector<std::size_t>> used(flows.size());
  const auto use = [&](std::size_t flow, std::size_t resource, double capacity) {
    resources[resource].left = capacity;
    ++resources[resource].waiting;
    resources[resource].flows.push_back(flow);
    used[flow].push_back(resource);
  };
  for (std::size_t f = 0; f < flows.size(); ++f) {
    const auto& [from, to] = flows[f];
    use(f, from, node_[from]);
    use(f, n + to, node_[to]);
    if (leaf_of_[from] != leaf_of_[to]) {
      const std::size_t up = leaf_of_[from] * links_of_leaf() + uplink_of(flows[f]);
      const std::size_t down = leaf_of_[to] * links_of_leaf() + uplink_of(flows[f]);
      use(f, 2 * n + up, uplink_[up]);
      use(f, 2 * n + uplink_.size() + down, uplink_[down]);
    }
    if (const auto path = paths_.find({from, to}); path != paths_.end()) {
      resources.emplace_back();
      use(f, resources.size() - 1, path->second);
    }
  }
  // The resource with the least for each of its flows settles those; then the next.
  using Item = std::pair<double, std::size_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  for (std::size_t r = 0; r < resources.size(); ++r) {
    if (resources[r].waiting > 0) queue.emplace(resources[r].share(), r);
  }
  std::vector<double> out(flows.size(), -1);
  while (!queue.empty()) {
    const auto [share, r] = queue.top();
    queue.pop();
    if (resources[r].waiting == 0) continue;
    if (share < resources[r].share()) {  // others were settled since: it has more for each now
      queue.emplace(resources[r].share(), r);
      continue;
    }
    for (const std::size_t f : resources[r].flows) {
      if (out[f] >= 0) continue;
      out[f] = share;
      for (const std::size_t other : used[f]) {
        resources[other].left = std::max(0.0, resources[other].left - share);
        --resources[other].waiting;
      }
    }
  }
  return out;
}

}  // namespace nccl_check::simulation
