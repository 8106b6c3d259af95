// NVML: the system, and how devices are found.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/identity.hpp"
#include "tests/doubles/nvml/device.hpp"

using namespace nccl_check::doubles;
using nccl_check::doubles::nvml::Device;

namespace {

std::atomic<int> initialized{0};
// With the flag "no attach" (2) the real library starts, and lists no GPU: seen with driver 580.
std::atomic<bool> attached{true};
char handles[most_gpus];  // a device's handle is an address in here

}  // namespace

namespace nccl_check::doubles::nvml {

Return ready() {
  if (description() == nullptr) return operating_system;
  return initialized > 0 ? success : uninitialized;
}

Return gpu_of(Device* device, int& gpu) {
  if (const Return result = ready()) return result;
  const auto all = present();
  const auto offset = reinterpret_cast<char*>(device) - handles;
  gpu = static_cast<int>(offset);
  return offset >= 0 && std::find(all.begin(), all.end(), gpu) != all.end() ? success : invalid_argument;
}

Device* handle_of(int gpu) {
  return reinterpret_cast<Device*>(handles + gpu);
}

Return copy_text(const std::string& text, char* to, unsigned room) {
  if (to == nullptr) return invalid_argument;
  if (text.size() >= room) return insufficient_size;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return success;
}

}  // namespace nccl_check::doubles::nvml

using namespace nccl_check::doubles::nvml;

NCCL_CHECK_NVML Return nvmlInitWithFlags(unsigned flags) {
  if (description() == nullptr) return operating_system;
  if (const Fault* fault = standing(Kind::nvml_error, {})) return static_cast<Return>(fault->code);
  attached = (flags & 2U) == 0;
  ++initialized;
  return success;
}

NCCL_CHECK_NVML Return nvmlShutdown() {
  if (const Return result = ready()) return result;
  --initialized;
  return success;
}

NCCL_CHECK_NVML const char* nvmlErrorString(int result) {
  switch (result) {
    case success:
      return "The operation was successful";
    case uninitialized:
      return "Uninitialized";
    case invalid_argument:
      return "Invalid Argument";
    case not_supported:
      return "Not Supported";
    case not_found:
      return "Not Found";
    case insufficient_size:
      return "Insufficient Size";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 16:
      return "GPU requires reset";
    case operating_system:
      return "Operating System Call Failed";
    case version_mismatch:
      return "Driver/library version mismatch";
    case argument_version:
      return "Argument version mismatch";
    default:
      return "Unknown Error";
  }
}

NCCL_CHECK_NVML Return nvmlSystemGetDriverVersion(char* text, unsigned room) {
  if (const Return result = ready()) return result;
  return copy_text(description()->host.driver_text, text, room);
}

NCCL_CHECK_NVML Return nvmlSystemGetNVMLVersion(char* text, unsigned room) {
  if (const Return result = ready()) return result;
  return copy_text("13." + description()->host.driver_text, text, room);
}

NCCL_CHECK_NVML Return nvmlDeviceGetCount_v2(unsigned* count) {
  if (const Return result = ready()) return result;
  if (count == nullptr) return invalid_argument;
  *count = attached ? static_cast<unsigned>(present().size()) : 0;
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (const Return result = ready()) return result;
  const auto all = present();
  if (device == nullptr || index >= all.size()) return invalid_argument;
  *device = handle_of(all[index]);
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetHandleByUUID(const char* text, Device** device) {
  if (const Return result = ready()) return result;
  if (device == nullptr || text == nullptr) return invalid_argument;
  for (const int gpu : present()) {
    if (uuid_text(gpu) != text) continue;
    *device = handle_of(gpu);
    return success;
  }
  return not_found;
}

NCCL_CHECK_NVML Return nvmlDeviceGetHandleByPciBusId_v2(const char* address, Device** device) {
  if (const Return result = ready()) return result;
  if (device == nullptr || address == nullptr) return invalid_argument;
  const int gpu = number_of(address);
  if (gpu == -1) return not_found;
  *device = handle_of(gpu);
  return success;
}
