#pragma once
// The GPUs as the kernel's driver lists them: a few files, where NVML takes a tenth of a second to start.
#include <string>
#include <vector>

#include "engine/nccl/choose_gpus.hpp"

namespace nccl_check::engine::nccl {

// In PCI order, from <root>/proc/driver/nvidia/gpus/*/information. Empty where one of them lacks its number,
// its address or its UUID (which the driver knows only once it has started the GPU), or where there is none.
std::vector<Known> kernel_list(const std::string& root);

}  // namespace nccl_check::engine::nccl
