#pragma once
// What the hardware carries by its own word, in GB/s (1e9 bytes): pure.
#include <string>
#include <vector>

#include "engine/nccl/readings.hpp"

namespace nccl_check::engine::nccl {

struct Ceiling {
  double rate = 0;   // GB/s; 0: unknown
  std::string text;  // where it is from: "18 NVLinks at 25 GB/s"
};

// Bytes read plus bytes written: memory clock x bus width x 2 (double data rate).
Ceiling memory_ceiling(const Readings& gpu);

// One way between two GPUs: the NVLinks between them, which with NVSwitch are all; without any, PCIe.
// `addresses`: PCI addresses of all the node's GPUs, to tell a link to another GPU from one to a switch.
Ceiling peer_ceiling(const Readings& a, const std::string& pci_a, const Readings& b, const std::string& pci_b,
                     const std::vector<std::string>& addresses);

// One way between a GPU and the host: a chip-to-chip link, else PCIe.
Ceiling host_ceiling(const Readings& gpu);

// all_reduce's bus bandwidth over these GPUs is at most what the GPU with the least carries one way.
Ceiling collective_ceiling(const std::vector<Readings>& gpus);

// Payload of a PCIe link, one way: rate x lanes x line code x 256 bytes of payload in a packet of 280.
double pcie_rate(unsigned generation, unsigned width);

}  // namespace nccl_check::engine::nccl
