#pragma once
// Checks that this node passed lately, so that the next job need not measure again. recent.json on the node.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::policy {

using Facts = std::map<std::string, std::string>;

struct Pass {
  bool across_nodes = false;  // the scope: inside the node, or across nodes
  std::int64_t time = 0;      // unix seconds
  std::uint32_t job = 0;
  double busbw = 0;  // GB/s
  double limit = 0;
  Facts settings;  // what was measured (plan.hpp's fingerprint)
  Facts identity;  // what the node was: this_node()
};

// What a pass stands and falls with: the boot, the driver, this program. An engine may add to it (GPU errors
// logged).
Facts this_node(const std::string& root = "");

// Pure. The newest pass of the scope within `reuse`, of the same settings and identity.
std::optional<Pass> find_pass(const std::vector<Pass>& passes, bool across_nodes, const Facts& settings,
                              const Facts& identity, std::int64_t now, std::chrono::milliseconds reuse);

// Empty where there is no file. A broken or foreign file is an error; no passes is the safe side: it is
// measured again.
Result<std::vector<Pass>> read_passes(const std::string& path, const std::string& node);

// Takes the place of an older one of the same scope and settings; at most 16 are kept.
Status add_pass(const std::string& path, const std::string& node, const Pass& pass);

// After a verdict that is no pass: nothing earlier speaks for the node any more.
Status forget_passes(const std::string& path, const std::string& node);

}  // namespace nccl_check::policy
