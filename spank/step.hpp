#pragma once
// slurmstepd: the job's verdict is shown and handed to the tasks; a step's own check is made, and ends the
// step's tasks where it fails. No hook here returns an error: in a batch step that would drain the node.
#include "spank/slurm_api.hpp"

namespace nccl_check::spank::step {

int init(spank_t spank, int argc, char** argv, spank_opt_cb_f check, spank_opt_cb_f environment);
int check_option(const char* argument);
int init_post_opt(spank_t spank);   // as root
int user_init(spank_t spank);       // as the user in part; what is written to stderr reaches him from here on
int task_post_fork(spank_t spank);  // as root
int task_init(spank_t spank);  // the forked task, as the user; does not return where the step's check failed

}  // namespace nccl_check::spank::step
