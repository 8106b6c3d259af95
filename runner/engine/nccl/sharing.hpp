#pragma once
// Who else uses the GPUs.
#include <string>

#include "engine/nccl/node.hpp"

namespace nccl_check::engine::nccl {

// The MPS daemon that a process with this environment would use, where it lives: its process id; 0: none.
int mps_daemon(const std::string& root, const char* pipe_directory);

// Memory that is missing because somebody else has it: their process ids added to the failure.
Failure with_holders(Failure failure, const Node& node, std::size_t gpu);

}  // namespace nccl_check::engine::nccl
