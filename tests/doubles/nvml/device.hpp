#pragma once
// Handles of devices.
#include <string>

#include "tests/doubles/nvml/nvml.hpp"

namespace nccl_check::doubles::nvml {

Return ready();                           // not before nvmlInitWithFlags
Return gpu_of(Device* device, int& gpu);  // its number on the host
Device* handle_of(int gpu);
Return copy_text(const std::string& text, char* to, unsigned room);

}  // namespace nccl_check::doubles::nvml
