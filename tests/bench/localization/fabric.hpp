#pragma once
// A network of leaf and spine switches whose flows share bandwidth fairly (max-min), as congestion control
// makes them in the long run. Rates are in units of one healthy node's link.
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace nccl_check::simulation {

struct Flow {
  std::size_t from = 0;
  std::size_t to = 0;
};

enum class Routing {
  adaptive,  // packets spread over all uplinks of a leaf: one resource each way
  ecmp,      // a flow stays on the uplink that the hash of its ends picks
};

class Fabric {
 public:
  // leaf_of: one entry a node. uplinks: links of rate 1 from each leaf to the spines.
  Fabric(std::vector<std::size_t> leaf_of, std::size_t uplinks, Routing routing, std::uint64_t hash_seed);

  void slow_node(std::size_t node, double rate) { node_[node] = rate; }
  void slow_leaf(std::size_t leaf, double factor);                        // all its uplinks, both ways
  void slow_uplink(std::size_t leaf, std::size_t uplink, double factor);  // one, both ways
  void slow_path(std::size_t a, std::size_t b, double rate);              // both ways, whatever else is on it

  // What each flow gets while all of them run.
  [[nodiscard]] std::vector<double> rates(const std::vector<Flow>& flows) const;

  [[nodiscard]] std::size_t nodes() const { return node_.size(); }
  [[nodiscard]] std::size_t leaf_of(std::size_t node) const { return leaf_of_[node]; }
  [[nodiscard]] std::size_t leaves() const { return leaves_; }
  [[nodiscard]] std::size_t uplinks() const { return uplinks_; }

 private:
  [[nodiscard]] std::size_t uplink_of(const Flow& flow) const;
  [[nodiscard]] std::size_t links_of_leaf() const { return routing_ == Routing::adaptive ? 1 : uplinks_; }

  std::vector<std::size_t> leaf_of_;
  std::size_t uplinks_;
  Routing routing_;
  std::uint64_t hash_seed_;
  std::size_t leaves_;
  std::vector<double> node_;    // rate of a node's link, each way
  std::vector<double> uplink_;  // of leaf * links_of_leaf() + link, each way
  std::map<std::pair<std::size_t, std::size_t>, double> paths_;
};

}  // namespace nccl_check::simulation
