#pragma once
// `nccl-check release NODE`: takes back our own drain, and only ours.
#include <cstdint>
#include <ostream>
#include <string>

#include "policy/paths.hpp"
#include "policy/slurm_calls.hpp"

namespace nccl_check::commands {

struct ReleaseArguments {
  std::string node;
  bool force = false;  // without a passing retest
};

// A retest is a check that the node passed after the drain, of the scope that had failed, as the node's own
// recent.json holds it: so without `force` it works on the node itself. 0: released, or it was not drained.
// 7: not released, with the reason on `error`.
int release(const ReleaseArguments& arguments, const policy::Paths& paths, policy::Slurm& slurm,
            std::int64_t now, std::ostream& out, std::ostream& error);

// The same for the command line: the real slurmctld, stdout and stderr.
int release(const ReleaseArguments& arguments, const policy::Paths& paths);

}  // namespace nccl_check::commands
