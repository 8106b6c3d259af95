#include "engine/nccl/nccl_log.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <vector>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

constexpr std::size_t most_text = 4U << 20U;

// What follows `mark`, up to the line's end; nothing where the line has no such mark.
std::string_view after(std::string_view line, std::string_view mark) {
  const auto at = line.find(mark);
  return at == line.npos ? std::string_view{} : trim(line.substr(at + mark.size()));
}

// "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>": mlx5_0:1, mlx5_1:1. And of sockets
// "[0]eth0:10.0.0.1<0>": eth0.
std::string devices_of(std::string_view text, bool sockets) {
  std::vector<std::string> out;
  for (const auto& word : split(text.substr(0, text.find(';')), ' ')) {
    const auto close = word.find(']');
    if (!word.starts_with('[') || close == word.npos || close + 1 == word.size()) continue;
    const std::string device = word.substr(close + 1);
    out.push_back(printable(device.substr(0, device.find(sockets ? ':' : '/')), 40));
  }
  return join(out, ", ");
}

int leading_number(std::string_view text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace

NcclLog parse_nccl_log(std::string_view text) {
  NcclLog log;
  std::map<std::string, std::string, std::less<>> devices;  // by network
  for (const auto& line : split(text, '\n')) {
    if (const auto warning = after(line, "NCCL WARN "); !warning.empty())
      log.warning = printable(warning, 300);
    if (line.find("NCCL INFO ") == line.npos) continue;
    if (const auto used = after(line, "NET/IB : Using "); !used.empty())
      devices["IB"] = devices_of(used, false);
    if (const auto used = after(line, "NET/Socket : Using "); !used.empty())
      devices["Socket"] = devices_of(used, true);
    if (const auto name = after(line, "Using network "); !name.empty()) log.network = printable(name, 60);
    if (line.find(" via NET/") != line.npos) log.between_hosts = true;
    if (const auto at = line.find(" coll channels"); at != line.npos) {
      const auto begin = line.rfind(' ', at - 1);
      if (begin != line.npos) log.channels = leading_number(std::string_view(line).substr(begin + 1));
    }
  }
  if (const auto found = devices.find(log.network); found != devices.end() && !found->second.empty())
    log.network += " " + found->second;
  return log;
}

std::string network_remark(const NcclLog& log, const Ports& ports) {
  if (!log.network.starts_with("Socket") || ports.active == 0) return "";
  return fmt::format("NCCL used Socket though {} InfiniBand port{} active", ports.active,
                     ports.active == 1 ? " is" : "s are");
}

void LogCapture::start() {
  if (std::getenv("NCCL_DEBUG") != nullptr || std::getenv("NCCL_DEBUG_FILE") != nullptr) return;
  fd_.reset(::memfd_create("nccl log", 0));
  if (!fd_) return;
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 1);
  ::setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", fd_.get()).c_str(), 1);
}

std::string LogCapture::text() const {
  std::string out;
  std::array<char, 65536> piece{};
  while (fd_ && out.size() < most_text) {
    const ssize_t n = ::pread(fd_.get(), piece.data(), piece.size(), static_cast<off_t>(out.size()));
    if (n <= 0) break;
    out.append(piece.data(), static_cast<std::size_t>(n));
  }
  return out;
}

}  // namespace nccl_check::engine::nccl
