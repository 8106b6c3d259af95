#include "spank/plan.hpp"

#include "spank/slurm_api.hpp"

namespace nccl_check::spank {

StepKind kind_of(std::uint32_t step) {
  switch (step) {
    case SLURM_BATCH_SCRIPT:
      return StepKind::batch;
    case SLURM_INTERACTIVE_STEP:
      return StepKind::interactive;
    case SLURM_EXTERN_CONT:
      return StepKind::external;
    default:
      return StepKind::srun;
  }
}

bool covers(const option::Spec& checked, const option::Spec& asked) {
  if (checked.off) return false;
  const bool checked_all = !checked.node && !checked.job;
  const bool asked_all = !asked.node && !asked.job;
  if (!checked_all && (asked_all ? !(checked.node && checked.job)
                                 : (asked.node && !checked.node) || (asked.job && !checked.job)))
    return false;
  return (!asked.size || asked.size == checked.size) &&
         (!asked.collective || asked.collective == checked.collective) &&
         (!asked.busbw || (checked.busbw && *checked.busbw >= *asked.busbw));
}

bool needs_own_check(StepKind kind, const std::optional<Asked>& asked, const std::optional<Record>& record) {
  if (kind != StepKind::srun || !asked || !asked->inside || asked->spec.off || asked->spec.help) return false;
  if (!record) return true;
  // A verdict that let the job run, but is no pass, does not satisfy who insists.
  const bool insists =
      asked->spec.consequence == option::Consequence::strict && record->verdict != verdict::Class::pass;
  return asked->spec.force || insists || !covers(record->spec, asked->spec);
}

bool unanswered(StepKind kind, const std::optional<Asked>& asked, const std::optional<Record>& record) {
  if (kind == StepKind::external || !asked || asked->spec.off || record) return false;
  return kind != StepKind::srun || !asked->inside;
}

}  // namespace nccl_check::spank
