#pragma once
// From a verdict to what this node does about it. Pure: the calls are made by enforce().
#include <cstdint>
#include <string>
#include <vector>

#include "policy/config.hpp"
#include "policy/plan.hpp"
#include "policy/state/strikes.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::policy {

struct Situation {
  std::string node;  // this one
  std::uint32_t job = 0;
  bool is_root = false;  // fails the job where no node is to blame
  bool shared = false;   // other jobs run here
  verdict::JobVerdict verdict;
  std::vector<Strike> strikes;  // this node's earlier ones, as read
  std::int64_t now = 0;         // unix seconds
};

struct Decision {
  verdict::Action action = verdict::Action::allow;  // what comes of it here, the gravest
  bool drain = false;
  bool strike = false;           // to be recorded
  bool fail_job = false;         // by this node
  bool hold = false;             // a requeued job is held: no node is out, another run would be the same
  bool job_fails = false;        // by whichever node's gate
  std::vector<std::string> out;  // the nodes that the job will not meet again
  std::string done;  // of this node, for its line: "drained", "strike 1 of 2 in 24 h"; empty: nothing to say
};

Decision decide_actions(const Config& config, const Plan& plan, const Situation& situation);

std::string format_window(milliseconds window);  // "24 h", "30 min"

}  // namespace nccl_check::policy
