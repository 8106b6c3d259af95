#include "tests/doubles/description/identity.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/rates.hpp"

namespace nccl_check::doubles {
namespace {

// One word of CUDA_VISIBLE_DEVICES: an index among those present, or the beginning of a UUID. -1: neither.
int meant(const std::string& word, const std::vector<int>& there) {
  if (word.rfind("GPU-", 0) == 0) {
    const auto found =
        std::find_if(there.begin(), there.end(), [&](int gpu) { return uuid_text(gpu).rfind(word, 0) == 0; });
    return found == there.end() ? -1 : *found;
  }
  char* end = nullptr;
  const long index = std::strtol(word.c_str(), &end, 10);
  if (end == word.c_str() || index < 0 || index >= static_cast<long>(there.size())) return -1;
  return there[static_cast<std::size_t>(index)];
}

std::uint64_t text_hash(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

std::vector<int> present() {
  std::vector<int> there;
  for (int gpu = 0; gpu < description()->host.gpus; ++gpu) {
    if (standing(Kind::missing_gpu, {.gpu = gpu}) == nullptr) there.push_back(gpu);
  }
  return there;
}

std::vector<int> visible() {
  const std::vector<int> there = present();
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) return there;
  std::vector<int> chosen;
  std::istringstream words(given);
  for (std::string word; std::getline(words, word, ',');) {
    const int gpu = meant(word, there);
    if (gpu == -1) break;  // as the driver does: what follows a word that it can't use is not seen
    chosen.push_back(gpu);
  }
  return chosen;
}

std::string device_name(int gpu) {
  const bool mig = standing(Kind::mig, {.gpu = gpu}) != nullptr;
  return "SIMULATED " + description()->host.model + (mig ? " MIG 1g.18gb" : "");
}

std::array<unsigned char, 16> uuid(int gpu) {
  std::array<unsigned char, 16> bytes{};
  const std::uint64_t host = text_hash(description()->host.name);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(mixed(host + static_cast<std::uint64_t>(gpu) * 16 + i));
  }
  return bytes;
}

std::string uuid_text(int gpu) {
  std::string text = "GPU-";
  const auto bytes = uuid(gpu);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::array<char, 4> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex.data();
  }
  return text;
}

unsigned pci_bus(int gpu) {
  return 0x1bU + static_cast<unsigned>(gpu) * 0x0cU;
}

std::string pci_address(int gpu) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0000:%02x:00.0", pci_bus(gpu));
  return text.data();
}

int number_of(const std::string& address) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  const bool full = std::sscanf(address.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) >= 3;
  if (!full && std::sscanf(address.c_str(), "%x:%x.%x", &bus, &device, &function) < 2) return -1;
  if ((full && domain != 0) || device != 0 || function != 0) return -1;
  for (const int gpu : present()) {
    if (pci_bus(gpu) == bus) return gpu;
  }
  return -1;
}

}  // namespace nccl_check::doubles
