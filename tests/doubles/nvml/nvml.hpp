#pragma once
// The part of NVML's binary interface that the stand-in has. There is no header of NVML where this is built:
// names, layouts and numbers are those of its public documentation (docs.nvidia.com/deploy/nvml-api); sizes
// were compared with CUDA 13.0's.
#include <cstdint>

namespace nccl_check::doubles::nvml {

enum Return : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  not_found = 6,
  insufficient_size = 7,
  operating_system = 17,
  version_mismatch = 18,  // of driver and library
  argument_version = 25,
};

struct PciInfo {
  char legacy_address[16];
  std::uint32_t domain, bus, device, device_id, subsystem_id;
  char address[32];
};
static_assert(sizeof(PciInfo) == 68);

struct FieldValue {
  std::uint32_t field, scope;  // scope: the link
  std::int64_t timestamp, latency;
  std::uint32_t type;
  int result;
  union {
    std::uint32_t number;
    std::uint64_t large;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

struct ProcessInfo {
  std::uint32_t process;
  std::uint64_t memory;
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

struct FabricInfo {
  std::uint32_t version;  // size | number << 24
  unsigned char cluster[16];
  int status;
  std::uint32_t clique;
  unsigned char state;  // 0 not supported, 1 not started, 2 in progress, 3 completed
  std::uint32_t health_mask;
  unsigned char health_summary;  // since version 3; 1: healthy
};
static_assert(sizeof(FabricInfo) == 40);
constexpr std::uint32_t fabric_version_2 = 36U | 2U << 24U;
constexpr std::uint32_t fabric_version_3 = 40U | 3U << 24U;

enum Field : std::uint32_t {
  nvlink_speed_common = 90,
  nvlink_count = 91,
  remapped_correctable = 142,
  remapped_uncorrectable = 143,
  remap_pending = 144,
  remap_failure = 145,
  nvlink_speed = 164,
  nvlink_state = 165,
  c2c_link_count = 170,
};

enum Reason : std::uint64_t {
  sw_power_cap = 0x4,
  hw_slowdown = 0x8,
  sw_thermal = 0x20,
  hw_thermal = 0x40,
  power_brake = 0x80,
};

struct Device;  // opaque

}  // namespace nccl_check::doubles::nvml

#define NCCL_CHECK_NVML extern "C" __attribute__((visibility("default")))
