#pragma once
// NVML's functions, got at run time and declared here, since its header comes with no driver. Structures and
// numbers: the NVML API Reference Guide; sizes compared with CUDA 13.0's nvml.h.
#include <array>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace nccl_check::engine::nccl {

using NvmlDevice = struct nvmlDevice_st*;

struct NvmlPciInfo {  // nvmlPciInfo_t, version 3
  std::array<char, 16> legacy_id;
  std::uint32_t domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> id;  // "00000000:3B:00.0"
};
static_assert(sizeof(NvmlPciInfo) == 68);

struct NvmlFieldValue {
  std::uint32_t field, scope;
  std::int64_t timestamp, latency;
  std::uint32_t type;  // 0 double, 1 and 5 32 bits, 2, 3 and 4 64 bits
  std::int32_t result;
  union {
    double real;
    std::uint32_t small;
    std::uint64_t large;
  } value;
};
static_assert(sizeof(NvmlFieldValue) == 40);

struct NvmlProcessInfo {  // version 3
  std::uint32_t pid;
  std::uint64_t used_bytes;
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlProcessInfo) == 24);

struct NvmlFabricInfo {  // nvmlGpuFabricInfo_v3_t
  std::uint32_t version;
  std::array<unsigned char, 16> cluster;
  std::int32_t status;
  std::uint32_t clique;
  unsigned char state;
  std::uint32_t health_mask;
  unsigned char health_summary;
};
static_assert(sizeof(NvmlFabricInfo) == 40);

namespace nvml {
constexpr int success = 0;
constexpr int driver_not_loaded = 9;    // NVML_ERROR_DRIVER_NOT_LOADED
constexpr int gpu_is_lost = 15;         // NVML_ERROR_GPU_IS_LOST
constexpr int reset_required = 16;      // NVML_ERROR_RESET_REQUIRED
constexpr int driver_mismatch = 18;     // NVML_ERROR_LIB_RM_VERSION_MISMATCH
constexpr std::uint32_t no_flags = 0;   // with "no attach" (2) a real library lists no GPU
constexpr std::uint32_t field_link_count = 91, field_link_speed = 164, field_link_state = 165;
constexpr std::uint32_t field_c2c_count = 170, field_c2c_speed = 172;
}  // namespace nvml

// Name as in the library, member, arguments. The first block is needed, the others may be missing.
#define NCCL_CHECK_NVML_NEEDED(X)                                        \
  X(nvmlInitWithFlags, init, std::uint32_t)                              \
  X(nvmlDeviceGetCount_v2, count, std::uint32_t*)                        \
  X(nvmlDeviceGetHandleByIndex_v2, by_index, std::uint32_t, NvmlDevice*) \
  X(nvmlDeviceGetUUID, uuid, NvmlDevice, char*, std::uint32_t)           \
  X(nvmlDeviceGetPciInfo_v3, pci, NvmlDevice, NvmlPciInfo*)
#define NCCL_CHECK_NVML_WELCOME(X)                                                                        \
  X(nvmlSystemGetDriverVersion, driver_version, char*, std::uint32_t)                                     \
  X(nvmlDeviceGetName, name, NvmlDevice, char*, std::uint32_t)                                            \
  X(nvmlDeviceGetMinorNumber, minor, NvmlDevice, std::uint32_t*)                                          \
  X(nvmlDeviceGetMigMode, mig_mode, NvmlDevice, std::uint32_t*, std::uint32_t*)                           \
  X(nvmlDeviceGetNvLinkState, link_state, NvmlDevice, std::uint32_t, std::uint32_t*)                      \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2, link_remote, NvmlDevice, std::uint32_t, NvmlPciInfo*)            \
  X(nvmlDeviceGetFieldValues, fields, NvmlDevice, int, NvmlFieldValue*)                                   \
  X(nvmlDeviceGetCurrPcieLinkWidth, pcie_width, NvmlDevice, std::uint32_t*)                               \
  X(nvmlDeviceGetMaxPcieLinkWidth, most_pcie_width, NvmlDevice, std::uint32_t*)                           \
  X(nvmlDeviceGetMaxPcieLinkGeneration, most_pcie_generation, NvmlDevice, std::uint32_t*)                 \
  X(nvmlDeviceGetTotalEccErrors, ecc_errors, NvmlDevice, int, int, std::uint64_t*)                        \
  X(nvmlDeviceGetRemappedRows, remapped_rows, NvmlDevice, std::uint32_t*, std::uint32_t*, std::uint32_t*, \
    std::uint32_t*)                                                                                       \
  X(nvmlDeviceGetCurrentClocksEventReasons, event_reasons, NvmlDevice, std::uint64_t*)                    \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, throttle_reasons, NvmlDevice, std::uint64_t*)              \
  X(nvmlDeviceGetComputeRunningProcesses_v3, processes, NvmlDevice, std::uint32_t*, NvmlProcessInfo*)     \
  X(nvmlDeviceGetMaxClockInfo, most_clock, NvmlDevice, int, std::uint32_t*)                               \
  X(nvmlDeviceGetMemoryBusWidth, memory_bus_width, NvmlDevice, std::uint32_t*)                            \
  X(nvmlDeviceGetGpuFabricInfoV, fabric, NvmlDevice, NvmlFabricInfo*)

struct NvmlApi {
#define NCCL_CHECK_MEMBER(symbol, member, ...) int (*member)(__VA_ARGS__) = nullptr;
  NCCL_CHECK_NVML_NEEDED(NCCL_CHECK_MEMBER)
  NCCL_CHECK_NVML_WELCOME(NCCL_CHECK_MEMBER)
#undef NCCL_CHECK_MEMBER
  const char* (*error_string)(int) = nullptr;
  std::string path;

  [[nodiscard]] std::string error(int code) const;
};

Result<NvmlApi> open_nvml(const std::string& path);

}  // namespace nccl_check::engine::nccl
