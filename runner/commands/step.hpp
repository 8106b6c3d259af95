#pragma once
// `nccl-check step`: a step's own check inside an allocation, on each of its nodes, as the job's user. Acts
// on nothing: the plugin ends the step where the record, printed on stdout, says that it fails.
#include <cstdint>
#include <string>

namespace nccl_check::commands {

struct StepArguments {
  std::string config;
  std::string spec;
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::string node;
  std::string nodelist;
  std::uint32_t node_rank = 0;
};

int step(const StepArguments& arguments);  // the exit code of the verdict's class

}  // namespace nccl_check::commands
