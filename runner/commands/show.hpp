#pragma once
// `nccl-check show [JOBID]`: the last verdict on this node, or a job's.
#include <cstdint>
#include <optional>
#include <ostream>

#include "policy/paths.hpp"

namespace nccl_check::commands {

struct ShowArguments {
  std::optional<std::uint32_t> job;  // nothing: the last check here
  bool json = false;                 // the whole record
};

// From the job's file while the job is there (its owner and root may read it), else from results.jsonl
// (root). 0: shown. 7: there is none, or none that may be read.
int show(const ShowArguments& arguments, const policy::Paths& paths, std::ostream& out, std::ostream& error);

}  // namespace nccl_check::commands
