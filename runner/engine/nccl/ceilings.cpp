#include "engine/nccl/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.hpp"

namespace nccl_check::engine::nccl {
namespace {

struct LinkRate {
  const char* part;  // of the model's name
  double rate;
};
// GB/s a link and direction. NVLink 2, 3 and 4: 25, NVLink 5: 50 (NVIDIA's NVLink page and data sheets).
constexpr std::array link_rates{LinkRate{"V100", 25}, LinkRate{"A100", 25}, LinkRate{"H100", 25},
                                LinkRate{"H200", 25}, LinkRate{"B200", 50}, LinkRate{"B300", 50}};

// NVML counts the line's rate, which is a little more than the payload (26.562 for NVLink 4): only for
// unknown models.
double link_rate(const Readings& gpu, const NvLink& link) {
  for (const auto& known : link_rates)
    if (gpu.name.find(known.part) != std::string::npos) return known.rate;
  return link.rate > 1 && link.rate < 1000 ? link.rate : 0;
}

Ceiling links_ceiling(const Readings& gpu, const std::vector<const NvLink*>& links) {
  double sum = 0;
  for (const auto* link : links) sum += link_rate(gpu, *link);
  if (sum <= 0) return {};
  const auto count = links.size();
  return {sum, fmt::format("{} NVLink{} at {} GB/s", count, count == 1 ? "" : "s",
                           format_rate(sum / static_cast<double>(count)))};
}

Ceiling one_way(const Readings& gpu, const std::string& partner, const std::vector<std::string>& addresses) {
  std::vector<const NvLink*> links;
  for (const auto& link : gpu.links) {
    const bool to_gpu = std::find(addresses.begin(), addresses.end(), link.remote) != addresses.end();
    if (link.up && (!to_gpu || link.remote == partner)) links.push_back(&link);
  }
  auto found = links_ceiling(gpu, links);
  return found.rate > 0 ? found : host_ceiling(gpu);
}

}  // namespace

Ceiling memory_ceiling(const Readings& gpu) {
  if (gpu.memory_mhz == 0 || gpu.memory_bits == 0) return {};
  const double rate = gpu.memory_mhz * 1e6 * 2 * gpu.memory_bits / 8 / 1e9;
  return {rate, fmt::format("{} bits at 2 x {} MHz", gpu.memory_bits, gpu.memory_mhz)};
}

Ceiling peer_ceiling(const Readings& a, const std::string& pci_a, const Readings& b, const std::string& pci_b,
                     const std::vector<std::string>& addresses) {
  const auto there = one_way(a, pci_b, addresses);
  const auto back = one_way(b, pci_a, addresses);
  return there.rate <= back.rate ? there : back;
}

Ceiling host_ceiling(const Readings& gpu) {
  if (gpu.c2c_links > 0 && gpu.c2c_rate > 0)
    return {gpu.c2c_links * gpu.c2c_rate,
            fmt::format("{} chip-to-chip links at {} GB/s", gpu.c2c_links, format_rate(gpu.c2c_rate))};
  const double rate = pcie_rate(gpu.most_pcie_generation.value_or(0), gpu.most_pcie_width.value_or(0));
  if (rate <= 0) return {};
  return {rate, fmt::format("PCIe {}.0 x{}", *gpu.most_pcie_generation, *gpu.most_pcie_width)};
}

Ceiling collective_ceiling(const std::vector<Readings>& gpus) {
  Ceiling least;
  for (const auto& gpu : gpus) {
    std::vector<const NvLink*> links;
    for (const auto& link : gpu.links)
      if (link.up) links.push_back(&link);
    auto own = links_ceiling(gpu, links);
    if (own.rate <= 0) own = host_ceiling(gpu);
    if (own.rate <= 0) return {};
    if (least.rate <= 0 || own.rate < least.rate) least = own;
  }
  return least;
}

double pcie_rate(unsigned generation, unsigned width) {
  // PCI Express base specification: GT/s a lane, and 8b/10b or 128b/130b (generation 6: flits, 242 of 256).
  constexpr std::array<double, 7> transfers{0, 2.5, 5, 8, 16, 32, 64};
  if (generation == 0 || generation >= transfers.size() || width == 0 || width > 32) return 0;
  const double code = generation < 3 ? 8.0 / 10 : generation < 6 ? 128.0 / 130 : 242.0 / 256;
  return transfers[generation] * width / 8 * code * 256 / 280;
}

}  // namespace nccl_check::engine::nccl
