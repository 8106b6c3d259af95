#pragma once
// `nccl-check gate`: what a prolog starts on each node of a job, as root.
#include <string>

namespace nccl_check::commands {

struct GateArguments {
  std::string config;      // nccl-check.toml
  bool after_job = false;  // the epilog's: remove what was written for the job
};

// 0: go on, whatever the verdict. 1: let the prolog fail: a drain is demanded and no call got through.
int gate(const GateArguments& arguments);

}  // namespace nccl_check::commands
