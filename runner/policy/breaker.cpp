#include "policy/breaker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "policy/actions.hpp"

namespace nccl_check::policy {
namespace {

// This node's place among those drained within the window, from 0. One that is not among them is the newest.
int place(const std::vector<const Reason*>& drained, const std::string& node) {
  const auto own =
      std::find_if(drained.begin(), drained.end(), [&](const Reason* r) { return r->node == node; });
  if (own == drained.end()) return static_cast<int>(drained.size());
  return static_cast<int>(std::count_if(drained.begin(), drained.end(), [&](const Reason* r) {
    return std::tie(r->time, r->node) < std::tie((*own)->time, (*own)->node);
  }));
}

}  // namespace

std::string beyond_bound(const Config& config, const Reasons& reasons, const std::string& node,
                         const std::string& partition, std::int64_t now) {
  const std::int64_t since =
      now - std::chrono::duration_cast<std::chrono::seconds>(config.breaker_window).count();
  std::vector<const Reason*> all;
  std::vector<const Reason*> neighbours;
  for (const auto& reason : reasons.nodes) {
    if (reason.time < since) continue;
    all.push_back(&reason);
    if (std::find(reason.partitions.begin(), reason.partitions.end(), partition) != reason.partitions.end())
      neighbours.push_back(&reason);
  }
  if (config.breaker_nodes > 0 && place(all, node) >= config.breaker_nodes)
    return fmt::format("the breaker allows {} drained in {}", config.breaker_nodes,
                       format_window(config.breaker_window));
  const auto size = reasons.partitions.find(partition);
  if (config.breaker_percent > 0 && size != reasons.partitions.end()) {
    const int bound = std::max(1, static_cast<int>(config.breaker_percent / 100 * size->second));
    if (place(neighbours, node) >= bound)
      return fmt::format("the breaker allows {} drained of partition {} in {}", bound, partition,
                         format_window(config.breaker_window));
  }
  return "";
}

}  // namespace nccl_check::policy
