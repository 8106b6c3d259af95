#pragma once
// srun, sbatch and salloc: a SPEC is read before anything is submitted.
#include "spank/slurm_api.hpp"

namespace nccl_check::spank::submit {

int init(spank_t spank, int argc, char** argv, spank_opt_cb_f check, spank_opt_cb_f environment);
int check_option(const char* argument);        // -1 ends the program with nothing submitted
int environment_option(const char* argument);  // likewise
int init_post_opt();

}  // namespace nccl_check::spank::submit
