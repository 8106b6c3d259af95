#pragma once
// Which of the node's GPUs are the job's.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace nccl_check::engine::nccl {

// A GPU as NVML or, without it, the CUDA driver lists it.
struct Known {
  std::uint32_t index = 0;             // in PCI order
  std::optional<std::uint32_t> minor;  // of /dev/nvidiaN
  std::string uuid;                    // "GPU-..."
  std::string pci;                     // "0000:3b:00.0"
  std::string name;                    // "NVIDIA H200"
  bool mig = false;
};

// One that is the job's; `number` is what people call it: "GPU 1".
struct Chosen {
  std::uint32_t number = 0;
  Known gpu;
};

// `wanted` as Slurm gives them: numbers (Slurm counts by the device file's minor number, which is the PCI
// order on almost all machines; without minor numbers the index is taken), UUIDs or unambiguous beginnings of
// them; empty: all. In PCI order, each once. One that is not there: broken, naming it. MIG: untested.
Measured<std::vector<Chosen>> choose_gpus(const std::vector<std::string>& wanted,
                                          const std::vector<Known>& known);

// "00000000:3B:00.0" as sysfs writes it: "0000:3b:00.0".
std::string pci_address(std::string_view text);
// "GPU 1 (0000:3b:00.0)"
std::string gpu_text(std::uint32_t number, std::string_view pci);

}  // namespace nccl_check::engine::nccl
