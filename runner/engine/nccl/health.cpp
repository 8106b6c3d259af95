#include "engine/nccl/health.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;

struct Model {
  const char* part;  // of the name
  std::uint32_t links;
};
// Data sheets: V100 SXM2 300 GB/s both ways at 50 a link, A100 SXM 600 at 50, H100 SXM and H200 SXM 900 at
// 50, B200 and B300 1800 at 100. PCIe boards and Grace superchips have as many as their builder wired.
constexpr std::array models{Model{"V100-SXM2", 6},       Model{"V100-SXM3", 6}, Model{"A100-SXM", 12},
                            Model{"H100 80GB HBM3", 18}, Model{"H100 SXM", 18}, Model{"H200", 18},
                            Model{"B200", 18},           Model{"B300", 18}};
constexpr std::array builders{"PCIe", "NVL", "GH200", "GB200", "GB300", "MIG", "vGPU", "GRID"};

std::uint32_t links_up(const Readings& gpu) {
  return static_cast<std::uint32_t>(
      std::count_if(gpu.links.begin(), gpu.links.end(), [](const NvLink& link) { return link.up; }));
}

std::uint32_t links_expected(const Readings& gpu, const std::vector<Checked>& all) {
  if (const auto known = nvlinks_of_model(gpu.name); known != 0) return known;
  std::uint32_t most = 0;
  for (const auto& other : all)
    if (other.readings.name == gpu.name) most = std::max(most, links_up(other.readings));
  return most;
}

void judge_links(const Readings& gpu, const std::vector<Checked>& all, std::vector<std::string>& found) {
  if (gpu.links.empty()) return;  // NVML told nothing of links
  const auto up = links_up(gpu);
  const auto expected = links_expected(gpu, all);
  if (up >= expected || (up == 0 && all.size() == 1)) return;
  std::vector<std::string> down;
  for (std::size_t link = 0; link < gpu.links.size(); ++link)
    if (!gpu.links[link].up) down.push_back(std::to_string(link));
  found.push_back(fmt::format("{} of {} NVLinks are up{}", up, expected,
                              down.empty() ? "" : fmt::format(" (down: {})", join(down, ", "))));
}

void judge_fabric(const Readings& gpu, std::vector<std::string>& found) {
  if (!gpu.fabric_state) return;
  if (*gpu.fabric_state == 1 || *gpu.fabric_state == 2)
    found.emplace_back("it has not joined the NVLink fabric (is the fabric manager running?)");
  if (*gpu.fabric_state == 3 && gpu.fabric_status != nvml::success)
    found.push_back(fmt::format("joining the NVLink fabric failed (NVML error {})", gpu.fabric_status));
}

std::vector<std::string> complaints(const Readings& gpu, const std::vector<Checked>& all) {
  std::vector<std::string> found;
  if (gpu.ecc_errors.value_or(0) > 0)
    found.push_back(
        fmt::format("{} uncorrected ECC error{}", *gpu.ecc_errors, *gpu.ecc_errors == 1 ? "" : "s"));
  if (gpu.remap_pending.value_or(false)) found.emplace_back("a row remapping waits for the GPU's reset");
  if (gpu.remap_failed.value_or(false))
    found.emplace_back("a row remapping failed: the GPU has to be replaced");
  judge_links(gpu, all, found);
  if (gpu.pcie_width && gpu.most_pcie_width && *gpu.pcie_width < *gpu.most_pcie_width)
    found.push_back(fmt::format("PCIe runs x{} of x{}", *gpu.pcie_width, *gpu.most_pcie_width));
  judge_fabric(gpu, found);
  return found;
}

}  // namespace

std::uint32_t nvlinks_of_model(const std::string& name) {
  for (const char* part : builders)
    if (name.find(part) != std::string::npos) return 0;
  for (const auto& model : models)
    if (name.find(model.part) != std::string::npos) return model.links;
  return 0;
}

std::optional<Failure> judge_health(const std::vector<Checked>& gpus) {
  for (const auto& gpu : gpus)
    if (const auto found = complaints(gpu.readings, gpus); !found.empty())
      return Failure{Class::broken,
                     {join(found, "; "), gpu.where, "see nvidia-smi -q; reset the GPU or reboot the node"}};
  return std::nullopt;
}

std::string throttle_text(std::uint64_t reasons) {
  // nvmlClocksEventReasons of the NVML API Reference Guide.
  constexpr std::uint64_t slowdown = 0x8, thermal_software = 0x20, thermal = 0x40, brake = 0x80;
  std::vector<std::string> found;
  if ((reasons & brake) != 0) found.emplace_back("power brake");
  if ((reasons & (thermal | thermal_software)) != 0) found.emplace_back("heat");
  if (found.empty() && (reasons & slowdown) != 0) found.emplace_back("the hardware (heat or power brake)");
  return found.empty() ? "" : "slowed down by " + join(found, " and ") + " while measuring";
}

std::string company_text(const Readings& readings, std::uint32_t own) {
  std::vector<std::string> others;
  for (auto pid : readings.processes)
    if (pid != own) others.push_back(std::to_string(pid));
  if (others.empty()) return "";
  return fmt::format("process{} {} {} on it, too", others.size() == 1 ? "" : "es", join(others, ", "),
                     others.size() == 1 ? "is" : "are");
}

}  // namespace nccl_check::engine::nccl
