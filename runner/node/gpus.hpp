#pragma once
// GPUs by sysfs and the driver's files, without NVML, which takes a tenth of a second to start.
#include <optional>
#include <string>
#include <vector>

#include "node/pci.hpp"

namespace nccl_check::node {

enum class Vendor { other, nvidia, amd };

struct Near {
  std::string name;  // "mlx5_0", "cxi0", or an interface where there is neither
  std::string pci;
  Distance distance;
};

struct Gpu {
  std::string pci;
  Vendor vendor = Vendor::other;
  std::string model;  // "NVIDIA H200"; empty: not known
  PciFunction function;
  std::vector<Near> nearest;  // the NICs than which none is nearer; empty: none, or not known
  Origin origin;
};

// In PCI order: display controllers of NVIDIA and AMD and AMD's accelerators; not a BMC's VGA. Nothing: the
// PCI devices can't be listed.
std::optional<std::vector<Gpu>> read_gpus(Tree& tree);

}  // namespace nccl_check::node
