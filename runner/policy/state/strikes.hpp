#pragma once
// A node's strikes: failing verdicts that did not drain it by themselves. strikes.json on the node.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::policy {

struct Strike {
  std::int64_t time = 0;  // unix seconds
  std::uint32_t job = 0;
  verdict::Class cls = verdict::Class::slow;
  std::vector<std::string> partners;  // with whom, across nodes; empty: inside the node
};

// Pure. Strikes within the window, of different jobs: a job counts once however often it was requeued.
// Strikes across nodes that all name one and the same partner count once together, since that partner may be
// to blame.
int count_strikes(const std::vector<Strike>& strikes, std::int64_t now, std::chrono::milliseconds window);

// Empty where there is no file. A file that is broken or not ours is an error; no strikes is then the safe
// side, since it drains less.
Result<std::vector<Strike>> read_strikes(const std::string& path, const std::string& node);

// Under the file's lock. Drops what is older than the window; a broken file is put aside (.broken) and begun
// anew.
Status add_strike(const std::string& path, const std::string& node, const Strike& strike,
                  std::chrono::milliseconds window);

// Once they have led to a drain, they are served.
Status clear_strikes(const std::string& path, const std::string& node);

}  // namespace nccl_check::policy
