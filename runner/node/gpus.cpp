#include "node/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace nccl_check::node {
namespace {

constexpr unsigned nvidia = 0x10de, amd = 0x1002;

// Where the driver does not say: the ids that clusters have, by pci.ids. An id that is not here stays a
// number.
struct Known {
  unsigned device;
  const char* model;
};
constexpr std::array<Known, 16> known_nvidia{{{0x1db1, "Tesla V100-SXM2-16GB"},
                                              {0x1db5, "Tesla V100-SXM2-32GB"},
                                              {0x20b0, "NVIDIA A100-SXM4-40GB"},
                                              {0x20b2, "NVIDIA A100-SXM4-80GB"},
                                              {0x20b5, "NVIDIA A100 80GB PCIe"},
                                              {0x20f1, "NVIDIA A100-PCIE-40GB"},
                                              {0x2230, "NVIDIA RTX A6000"},
                                              {0x2235, "NVIDIA A40"},
                                              {0x2324, "NVIDIA H800"},
                                              {0x2330, "NVIDIA H100 80GB HBM3"},
                                              {0x2331, "NVIDIA H100 PCIe"},
                                              {0x2335, "NVIDIA H200"},
                                              {0x2342, "NVIDIA GH200"},
                                              {0x2684, "NVIDIA GeForce RTX 4090"},
                                              {0x26b1, "NVIDIA RTX 6000 Ada Generation"},
                                              {0x26b9, "NVIDIA L40S"}}};

// "Model: 		 NVIDIA H200" in the driver's own folder.
std::string model_by_driver(Tree& tree, const std::string& file) {
  const auto text = tree.text(file);
  if (!text) return "";
  for (const auto& line : split(*text, '\n')) {
    constexpr std::string_view key = "Model:";
    if (!line.starts_with(key)) continue;
    const auto model = printable(trim(std::string_view(line).substr(key.size())), 100);
    return model == "Unknown" ? "" : model;
  }
  return "";
}

void find_model(Tree& tree, Gpu& gpu) {
  const std::string file = "/proc/driver/nvidia/gpus/" + gpu.pci + "/information";
  gpu.model = gpu.vendor == Vendor::nvidia ? model_by_driver(tree, file) : "";
  gpu.origin.set("model", file, !gpu.model.empty());
  if (!gpu.model.empty() || gpu.vendor != Vendor::nvidia || !gpu.function.device) return;
  const auto known = std::find_if(known_nvidia.begin(), known_nvidia.end(),
                                  [&](const Known& k) { return k.device == *gpu.function.device; });
  if (known == known_nvidia.end()) return;
  gpu.model = known->model;
  gpu.origin.read("model", "/sys/bus/pci/devices/" + gpu.pci + "/device");
}

}  // namespace

std::optional<std::vector<Gpu>> read_gpus(Tree& tree) {
  const auto functions = read_pci_of_class(tree, {0x03, 0x12});
  if (!functions) return std::nullopt;
  std::vector<Gpu> out;
  for (const auto& function : *functions) {
    if (function.vendor != nvidia && function.vendor != amd) continue;
    Gpu& gpu = out.emplace_back();
    gpu.pci = function.address;
    gpu.vendor = function.vendor == nvidia ? Vendor::nvidia : Vendor::amd;
    gpu.function = function;
    find_model(tree, gpu);
  }
  return out;
}

}  // namespace nccl_check::node
