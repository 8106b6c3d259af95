#pragma once
// Failing a job: told to its user, then requeued, held or cancelled.
#include <cstdint>
#include <string>
#include <vector>

#include "slurm/answer.hpp"

namespace nccl_check::slurm {

struct FailJob {
  std::uint32_t job = 0;         // the numeric id, as a prolog has it: never the array's or the het job's own
  std::uint32_t restart = 0;     // the run that failed; a later run of the same job is left alone
  std::string told_if_requeued;  // what the user reads, by what becomes of the job; each may be empty
  std::string told_if_held;
  std::string told_if_cancelled;
  std::vector<std::string> avoid;  // nodes that a requeued job shall not get again (they are not drained)
  bool hold = false;               // requeue it held: nothing would be different in another run
};

// {"outcome": "requeued" | "held" | "cancelled" | "gone", "told": bool, "avoided": bool, "notes": [...]}
// A batch job that may be requeued is, all others are cancelled; a job that requires a node to be avoided is
// held, or it would meet it again for ever. One task of an array alone; a het job with all its components,
// since Slurm starts them together or not at all. Gone: it had ended or been requeued before (by a peer's
// gate, a person).
Answer fail_job(const FailJob& request);

// The pure parts.
// Text of others in AdminComment stays in front, text of ours from an earlier run is replaced.
std::string merge_comment(const std::string& before, const std::string& ours);
std::string merge_hostlist(const std::string& before, const std::vector<std::string>& more);

}  // namespace nccl_check::slurm
