#pragma once
// How many nodes may be drained within a time. Pure: every gate applies the same rule to what slurmctld
// shows, so that gates that drain at the same moment agree on whose drain stays.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policy/config.hpp"

namespace nccl_check::policy {

// A drained node with a reason of ours.
struct Reason {
  std::string node;
  std::string text;
  std::int64_t time = 0;  // unix seconds, Slurm's
  std::vector<std::string> partitions;
};
struct Reasons {
  std::vector<Reason> nodes;
  std::map<std::string, int> partitions;  // how many nodes each has
};

// What says that `node` must take its drain back, naming the bound; empty: it stays. The oldest within the
// window stay, by time, then by name.
std::string beyond_bound(const Config& config, const Reasons& reasons, const std::string& node,
                         const std::string& partition, std::int64_t now);

// Slurm's reason times are whole seconds. Whoever looks later than a second after its own drain sees every
// drain that its own second could be mistaken for, and any later one is newer by the clock: so no two gates
// disagree.
constexpr milliseconds breaker_wait{1200};

}  // namespace nccl_check::policy
