#pragma once
// A decision carried out: strikes recorded, the node drained within the breaker's bound, the job failed. All
// by calls to slurmctld (decision 9), all within one deadline.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "policy/actions.hpp"
#include "policy/config.hpp"
#include "policy/paths.hpp"
#include "policy/slurm_calls.hpp"

namespace nccl_check::policy {

struct Case {
  std::string node;       // this one
  std::string partition;  // the job's
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  bool across_nodes = false;     // the scope that failed here, for the record
  std::string reason;            // Slurm's Reason, starts with "nccl-check:"
  verdict::NodeVerdict verdict;  // this node's own
  std::int64_t now = 0;          // unix seconds
};

// What the job's user reads if this becomes of the job; `done` is what was done about this node.
using Tell = std::function<std::string(Fate fate, const std::string& done)>;

struct Outcome {
  verdict::Action action = verdict::Action::allow;  // what was done, after all
  Fate fate = Fate::runs;
  std::string done;                // of this node, for its line
  bool fail_prolog = false;        // the policy demands a drain, no call got through: return non-zero
  std::vector<std::string> notes;  // for the log: what did not go as it should
};

// `wait`: sleeps, for tests. `until`: after the first call without an answer nothing more is asked, and it is
// back by then.
Outcome enforce(const Config& config, const Decision& decision, const Case& about, const Paths& paths,
                Slurm& slurm, const Tell& tell, Deadline until,
                const std::function<void(milliseconds)>& wait);
void sleep_for(milliseconds time);

}  // namespace nccl_check::policy
