#include "tests/doubles/nccl/log.hpp"

#include <arpa/inet.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/doubles/description/description.hpp"
#include "tests/doubles/nccl/address.hpp"

namespace nccl_check::doubles {
namespace {

std::string expanded(const std::string& pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    ++i;
    if (pattern[i] == 'h')
      path += description()->host.name;
    else if (pattern[i] == 'p')
      path += std::to_string(::getpid());
    else
      path += pattern[i];
  }
  return path;
}

std::FILE* open_log() {
  const char* level = std::getenv("NCCL_DEBUG");
  if (level == nullptr || (std::strcmp(level, "INFO") != 0 && std::strcmp(level, "TRACE") != 0))
    return nullptr;
  const char* pattern = std::getenv("NCCL_DEBUG_FILE");
  std::FILE* file = pattern == nullptr ? stdout : std::fopen(expanded(pattern).c_str(), "we");
  if (file != nullptr) std::setvbuf(file, nullptr, _IOLBF, 0);
  return file;
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string interface_text() {
  const Interface chosen = chosen_interface();
  std::array<char, INET_ADDRSTRLEN> address{};
  ::inet_ntop(AF_INET, &chosen.address, address.data(), address.size());
  return chosen.name + ":" + address.data() + "<0>";
}

std::string ports_text() {
  const Host& host = description()->host;
  std::string text;
  for (int nic = 0; nic < host.gpus * host.nics_per_gpu; ++nic) {
    text += "[" + std::to_string(nic) + "]mlx5_" + std::to_string(nic) + ":1/IB ";
  }
  return text;
}

}  // namespace

std::string network() {
  const char* wanted = std::getenv("NCCL_NET");
  if (wanted != nullptr && std::strcmp(wanted, "Socket") == 0) return "Socket";
  return description()->host.network;
}

void log_info(int device, const std::string& text) {
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  static std::FILE* const file = open_log();
  if (file == nullptr) return;
  std::fprintf(file, "%s:%d:%ld [%d] NCCL INFO %s\n", description()->host.name.c_str(), ::getpid(),
               ::syscall(SYS_gettid), device, text.c_str());
}

void log_init(int device, int rank, int ranks) {
  log_info(device, "NCCL version " + version_text(description()->host.nccl) + "+cuda13.0 SIMULATED");
  log_info(device, "Bootstrap: Using " + interface_text());
  if (network() == "IB") {
    log_info(device, "NET/IB : Using " + ports_text() + "[RO]; OOB " + interface_text());
  } else {
    log_info(device, "NET/IB : No device found.");
    log_info(device, "NET/Socket : Using [0]" + interface_text());
  }
  log_info(device, "Using network " + network());
  log_info(
      device,
      "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer");
  log_info(device, "ncclCommInitRankConfig comm SIMULATED rank " + std::to_string(rank) + " nranks " +
                       std::to_string(ranks) + " cudaDev " + std::to_string(device) + " - Init COMPLETE");
}

}  // namespace nccl_check::doubles
