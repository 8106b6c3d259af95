#include "engine/nccl/kernel_list.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

namespace fs = std::filesystem;

// "GPU UUID: 	 GPU-b1c2...", "Device Minor: 	 3", "Bus Location: 	 0000:3b:00.0", "Model:
// NVIDIA H200"
Known read_one(const fs::path& file) {
  Known gpu;
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto key = line.substr(0, colon);
    const auto value = printable(trim(std::string_view(line).substr(colon + 1)), 100);
    if (key == "GPU UUID") gpu.uuid = value;
    if (key == "Model") gpu.name = value;
    if (key == "Bus Location") gpu.pci = pci_address(value);
    std::uint32_t minor = 0;
    if (key == "Device Minor" &&
        std::from_chars(value.data(), value.data() + value.size(), minor).ec == std::errc{})
      gpu.minor = minor;
  }
  return gpu;
}

bool complete(const Known& gpu) {
  return gpu.minor && !gpu.pci.empty() && gpu.uuid.starts_with("GPU-") &&
         gpu.uuid.find('?') == std::string::npos;
}

}  // namespace

std::vector<Known> kernel_list(const std::string& root) {
  std::vector<Known> gpus;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", none))
    gpus.push_back(read_one(entry.path() / "information"));
  if (!std::all_of(gpus.begin(), gpus.end(), complete)) return {};
  std::sort(gpus.begin(), gpus.end(), [](const Known& a, const Known& b) { return a.pci < b.pci; });
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<std::uint32_t>(i);
  return gpus;
}

}  // namespace nccl_check::engine::nccl
