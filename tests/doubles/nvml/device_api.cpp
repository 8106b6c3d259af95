// NVML: what a device is, and its state.
#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/identity.hpp"
#include "tests/doubles/nvml/device.hpp"

using namespace nccl_check::doubles;
using namespace nccl_check::doubles::nvml;

namespace {

// Calls get with the GPU's number where device and result can be used.
template <class Value, class Get>
Return answer(Device* device, Value* to, Get&& get) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  if (to == nullptr) return invalid_argument;
  *to = static_cast<Value>(get(gpu));
  return success;
}

long value_or(Kind kind, int gpu, long healthy) {
  const Fault* fault = standing(kind, {.gpu = gpu});
  return fault == nullptr ? healthy : fault->value;
}

std::uint64_t reasons(int gpu) {
  static const std::map<std::string, Reason> words{{"power_brake", power_brake},
                                                   {"hw_thermal", hw_thermal},
                                                   {"hw_slowdown", hw_slowdown},
                                                   {"sw_thermal", sw_thermal},
                                                   {"sw_power", sw_power_cap}};
  std::uint64_t bits = 0;
  for (const auto& [word, bit] : words) {
    for (const Fault& fault : description()->faults) {
      const bool here = fault.kind == Kind::throttled && (fault.gpu == -1 || fault.gpu == gpu);
      if (here && fault.reason == word) bits |= bit;
    }
  }
  return bits;
}

unsigned clock_of(int gpu, int type) {
  if (type == 2) return static_cast<unsigned>(description()->host.memory_clock);
  return reasons(gpu) == 0 ? 1980 : 345;
}

}  // namespace

NCCL_CHECK_NVML Return nvmlDeviceGetName(Device* device, char* text, unsigned room) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  return copy_text(device_name(gpu), text, room);
}

NCCL_CHECK_NVML Return nvmlDeviceGetUUID(Device* device, char* text, unsigned room) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  return copy_text(uuid_text(gpu), text, room);
}

NCCL_CHECK_NVML Return nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* info) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  if (info == nullptr) return invalid_argument;
  *info = {};
  info->bus = pci_bus(gpu);
  info->device_id = 0x233510de;
  info->subsystem_id = 0x18be10de;
  std::snprintf(info->legacy_address, sizeof info->legacy_address, "0000:%02X:00.0", pci_bus(gpu) & 0xffU);
  std::snprintf(info->address, sizeof info->address, "00000000:%02X:00.0", pci_bus(gpu) & 0xffU);
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetMinorNumber(Device* device, unsigned* minor) {
  return answer(device, minor, [](int gpu) { return gpu; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetMigMode(Device* device, unsigned* now, unsigned* pending) {
  const auto on = [](int gpu) { return standing(Kind::mig, {.gpu = gpu}) != nullptr ? 1 : 0; };
  if (const Return result = answer(device, now, on)) return result;
  return answer(device, pending, on);
}

NCCL_CHECK_NVML Return nvmlDeviceGetCurrPcieLinkGeneration(Device* device, unsigned* generation) {
  return answer(device, generation, [](int gpu) {
    return value_or(Kind::pcie_generation, gpu, description()->host.pcie_generation);
  });
}

NCCL_CHECK_NVML Return nvmlDeviceGetMaxPcieLinkGeneration(Device* device, unsigned* generation) {
  return answer(device, generation, [](int) { return description()->host.pcie_generation; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetCurrPcieLinkWidth(Device* device, unsigned* width) {
  return answer(device, width,
                [](int gpu) { return value_or(Kind::pcie_width, gpu, description()->host.pcie_width); });
}

NCCL_CHECK_NVML Return nvmlDeviceGetMaxPcieLinkWidth(Device* device, unsigned* width) {
  return answer(device, width, [](int) { return description()->host.pcie_width; });
}

// error: 1 uncorrected; counter: 0 volatile, 1 aggregate.
NCCL_CHECK_NVML Return nvmlDeviceGetTotalEccErrors(Device* device, int error, int,
                                                   unsigned long long* count) {
  return answer(device, count, [&](int gpu) { return error == 1 ? value_or(Kind::ecc_errors, gpu, 0) : 0; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetRemappedRows(Device* device, unsigned* correctable,
                                                 unsigned* uncorrectable, unsigned* pending,
                                                 unsigned* failure) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  if (correctable == nullptr || uncorrectable == nullptr || pending == nullptr || failure == nullptr) {
    return invalid_argument;
  }
  const Fault* fault = standing(Kind::row_remap, {.gpu = gpu});
  *correctable = 0;
  *uncorrectable = fault != nullptr ? 1 : 0;
  *pending = fault != nullptr && fault->reason == "pending" ? 1 : 0;
  *failure = fault != nullptr && fault->reason == "failure" ? 1 : 0;
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetCurrentClocksEventReasons(Device* device, unsigned long long* bits) {
  return answer(device, bits, reasons);
}

NCCL_CHECK_NVML Return nvmlDeviceGetCurrentClocksThrottleReasons(Device* device, unsigned long long* bits) {
  return answer(device, bits, reasons);
}

NCCL_CHECK_NVML Return nvmlDeviceGetComputeMode(Device* device, int* mode) {
  return answer(device, mode,
                [](int gpu) { return standing(Kind::exclusive_process, {.gpu = gpu}) != nullptr ? 3 : 0; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetClockInfo(Device* device, int type, unsigned* clock) {
  return answer(device, clock, [&](int gpu) { return clock_of(gpu, type); });
}

NCCL_CHECK_NVML Return nvmlDeviceGetMaxClockInfo(Device* device, int type, unsigned* clock) {
  return answer(device, clock, [&](int) { return type == 2 ? description()->host.memory_clock : 1980; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetPowerUsage(Device* device, unsigned* milliwatts) {
  return answer(device, milliwatts, [](int) { return 118000; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetTemperature(Device* device, int, unsigned* degrees) {
  return answer(device, degrees,
                [](int gpu) { return (reasons(gpu) & (hw_thermal | sw_thermal)) != 0 ? 92 : 34; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetMemoryBusWidth(Device* device, unsigned* bits) {
  return answer(device, bits, [](int) { return description()->host.memory_bus_width; });
}

NCCL_CHECK_NVML Return nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned* count,
                                                               ProcessInfo* processes) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  if (count == nullptr) return invalid_argument;
  const unsigned room = *count;
  *count = 0;
  for (const Fault& fault : description()->faults) {
    if (fault.kind != Kind::busy || (fault.gpu != -1 && fault.gpu != gpu)) continue;
    if (*count < room) processes[*count] = {static_cast<std::uint32_t>(fault.value), 1U << 30U, ~0U, ~0U};
    ++*count;
  }
  return *count > room ? insufficient_size : success;
}
