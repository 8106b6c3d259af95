#pragma once
// From a site's configuration and a plan to what a check needs; the same for a gate and for a step.
#include <string>
#include <vector>

#include "commands/check.hpp"
#include "option/spec.hpp"
#include "policy/config.hpp"
#include "policy/plan.hpp"

namespace nccl_check::commands {

struct Parties {
  std::string node;
  std::vector<std::string> nodes;
  std::string partition;
  std::vector<std::string> gpus;  // that the job has here, as Slurm gives them
};

// Everything but identity, addresses and the worker's user. `join` of the participant says untested, with the
// reason, where this build can't measure what is asked for.
CheckSetup plan_check(const policy::Config& config, const policy::Plan& plan, const option::Spec& spec,
                      const Parties& parties);

// Why a check is untested where load_config() has errors.
std::string config_problem(const std::vector<Error>& errors);

// Fills in how the nodes meet: whose credentials count (our own user's), how the first node is reached, by
// which device peers are looked for where nothing is named, and who knows the leaf switches.
void meet(CheckSetup& setup, const std::string& slurm_program, Deadline deadline);

// Of a list as Slurm gives it: "0,1", "0-3", "GPU-b1c2...".
std::vector<std::string> gpu_list(const char* text);

// This program's own path, for its children.
std::string own_program();

}  // namespace nccl_check::commands
