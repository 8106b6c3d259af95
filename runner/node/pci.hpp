#pragma once
// PCI functions as sysfs has them: where each hangs, how its link runs now and how it could.
#include <optional>
#include <string>
#include <vector>

#include "node/origin.hpp"
#include "node/tree.hpp"

namespace nccl_check::node {

struct PciLink {
  std::optional<double> speed;  // GT/s a lane
  std::optional<int> width;     // lanes
};

struct PciFunction {
  std::string address;            // "0000:41:00.0"
  std::vector<std::string> path;  // from the host bridge down to itself: "pci0000:40", "0000:40:01.1", ...
  std::optional<unsigned> vendor, device, class_code;  // class as sysfs has it: 0x030200
  std::optional<int> numa;                             // -1 in sysfs: none, which is unknown here
  std::string driver;                                  // empty: none, or not known
  std::optional<bool> virtual_function;
  PciLink now, most;
  Origin origin;
  [[nodiscard]] std::string vendor_device() const;  // "15b3:1021"; empty where not known
};

PciFunction read_pci(Tree& tree, const std::string& address);
// All that sysfs lists whose class starts with one of the bytes (0x02 network, 0x03 display, 0x12
// accelerator); nothing: the list can't be read.
std::optional<std::vector<PciFunction>> read_pci_of_class(Tree& tree, const std::vector<unsigned>& classes);

// The PCI function nearest above a device's folder: "/sys/devices/pci0000:00/0000:00:03.0/virtio2" gives
// "0000:00:03.0"; empty: none.
std::string pci_behind(const std::string& path);
// "0000:41:00.0", any case, 8-digit domains as NVML has them; empty: no PCI address.
std::string pci_address(const std::string& text);

// As nvidia-smi topo -m and NCCL_NET_GDR_LEVEL count: one switch, several, a host bridge, a NUMA node, more.
enum class Closeness { pix, pxb, phb, node, sys, unknown };
const char* name(Closeness closeness);  // "PIX", "PXB", "PHB", "NODE", "SYS", "unknown"

struct Distance {
  Closeness closeness = Closeness::unknown;
  std::size_t hops = 0;  // bridges in between, where they share a host bridge
  auto operator<=>(const Distance&) const = default;
};
Distance distance(const PciFunction& a, const PciFunction& b);

}  // namespace nccl_check::node
