#pragma once
// The forms in which `nccl-check env` shows a plan.
#include <string>
#include <vector>

#include "environment/in_force.hpp"
#include "environment/remarks.hpp"

namespace nccl_check::commands {

struct EnvReport {
  std::string node;
  std::string nccl;       // the version; empty: not known
  std::string nccl_from;  // the library's path, or the option
  environment::Plan plan;
  environment::InForce in_force;
  std::vector<environment::Remark> remarks;
};

std::string env_table(const EnvReport& report);  // for people
std::string env_shell(const EnvReport& report);  // for eval in a POSIX shell; notes as comments
std::string env_json(const EnvReport& report);

}  // namespace nccl_check::commands
