#pragma once
// `nccl-check config check`: reads the configuration as the gate would, and looks at what else the gate
// needs.
#include <ostream>
#include <string>

#include "policy/paths.hpp"

namespace nccl_check::commands {

struct ConfigCheckArguments {
  std::string config;  // nccl-check.toml
};

// Every error on a line of its own, with file, line and remedy. 0: all is well. 2: there are errors.
// `slurm_program`: find_slurm_program().
int config_check(const ConfigCheckArguments& arguments, const policy::Paths& paths,
                 const std::string& slurm_program, std::ostream& out, std::ostream& error);

}  // namespace nccl_check::commands
