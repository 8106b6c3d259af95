#pragma once
// What a person reads of a verdict: on srun's stderr, in a batch job's output, in AdminComment. contract.md
// gives the form.
#include <map>
#include <string>
#include <vector>

#include "verdict/verdict.hpp"

namespace nccl_check::report {

using verdict::Fate;

// One line for each node that is not a pass, with what was done about it (by node name: "drained", "strike 1
// of 2 in 24 h"), then one for the job. `out`: the nodes that the job will not meet again.
std::vector<std::string> lines(const verdict::JobVerdict& verdict, const std::vector<std::string>& nodes,
                               const std::map<std::string, std::string>& done, Fate fate,
                               const std::vector<std::string>& out);

// "nccl-check: slow send/recv 11.2 < 44 GB/s with n1,n4, job 1234": for Slurm's Reason field, at most 200
// characters.
std::string drain_reason(const verdict::NodeVerdict& node, unsigned job);

constexpr const char* prefix = "nccl-check: ";  // of every line and of every reason that is ours

}  // namespace nccl_check::report
