#pragma once
// The two options, in the form Slurm knows them.
#include "spank/slurm_api.hpp"

namespace nccl_check::spank {

// The variables by which Slurm hands --nccl-check on: from sbatch and salloc to the sruns inside, and from a
// submitting program to its step. The names are Slurm's own, made of the plugin's and the option's.
inline constexpr const char* inherited_variable = "SLURM_SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check";
inline constexpr const char* forwarded_variable = "_SLURM_SPANK_OPTION_nccl_check_nccl_check";

// By which srun tells its step that --nccl-check was asked of this very srun, inside an existing allocation.
// Named SLURM_ because those variables alone get through --export=NONE.
inline constexpr const char* asked_inside_variable = "SLURM_NCCL_CHECK_ASKED";

// To be called from slurm_spank_init alone. Never by an exported table: with one, spank_option_getopt fails
// in a prolog.
int register_options(spank_t spank, spank_opt_cb_f check, spank_opt_cb_f environment);

}  // namespace nccl_check::spank
