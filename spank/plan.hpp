#pragma once
// What a step does about a check: pure, so that every case is a test.
#include <cstdint>
#include <optional>
#include <string>

#include "option/spec.hpp"
#include "spank/record.hpp"

namespace nccl_check::spank {

// What runs on this node: a script of sbatch, a shell of salloc, an srun, or Slurm's own holder of the job.
enum class StepKind { batch, interactive, srun, external };
StepKind kind_of(std::uint32_t step);

struct Asked {
  option::Spec spec;
  bool inside =
      false;  // of an srun within an allocation that was there already, not of what made the allocation
};

// A verdict says something about what is asked now: its scopes, size, collective and bandwidth, or none
// named.
bool covers(const option::Spec& checked, const option::Spec& asked);

// Whether this step measures by itself: only an srun that was asked to inside an allocation, for what the
// job's verdict does not say. An allocating srun's question was the gate's to answer, whatever it said.
bool needs_own_check(StepKind kind, const std::optional<Asked>& asked, const std::optional<Record>& record);

// The user asked for a check that neither the gate made nor a step will: worth a line, instead of silence.
bool unanswered(StepKind kind, const std::optional<Asked>& asked, const std::optional<Record>& record);

}  // namespace nccl_check::spank
