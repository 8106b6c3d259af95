#pragma once
// What NVML says of a GPU. What it does not say stays empty: unknown, never good or bad.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/nccl/choose_gpus.hpp"
#include "engine/nccl/nvml_api.hpp"

namespace nccl_check::engine::nccl {

struct NvLink {
  bool up = false;
  double rate = 0;     // GB/s one way, by NVML's word; 0: unknown
  std::string remote;  // PCI address of the other end; empty: unknown
};

struct Readings {
  std::string name;
  std::optional<std::uint64_t> ecc_errors;  // uncorrected, since the driver was loaded
  std::optional<bool> remap_pending, remap_failed;
  std::vector<NvLink> links;
  std::optional<std::uint32_t> pcie_width, most_pcie_width, most_pcie_generation;
  std::uint32_t memory_mhz = 0, memory_bits = 0;  // 0: unknown
  std::uint32_t c2c_links = 0;
  double c2c_rate = 0;  // GB/s a link
  // nvmlGpuFabricState_t (0 not supported, 1 not started, 2 in progress, 3 completed), and its result.
  std::optional<std::uint32_t> fabric_state;
  std::int32_t fabric_status = 0;
  std::vector<std::uint32_t> processes;  // with a CUDA context on it
};

// The driver's library, initialised without touching a GPU. Library and driver of different versions: broken.
Measured<NvmlApi> start_nvml(const std::string& path);
std::string driver_version(const NvmlApi& api);  // "580.95.05"; empty: unknown

struct NvmlGpu {
  Known known;
  NvmlDevice device = nullptr;
};
// All that the driver shows, in NVML's order. A GPU that NVML counts and can't open is broken.
Measured<std::vector<NvmlGpu>> list_gpus(const NvmlApi& api);

Readings read_gpu(const NvmlApi& api, NvmlDevice device);
std::uint64_t clock_reasons(const NvmlApi& api,
                            NvmlDevice device);  // nvmlClocksEventReason* bits; 0: none, unknown
std::vector<std::uint32_t> processes_on(const NvmlApi& api, NvmlDevice device);

}  // namespace nccl_check::engine::nccl
