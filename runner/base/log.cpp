#include "base/log.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace nccl_check {
namespace {

bool system_log = false;
constexpr int daemon_facility = 3 << 3;

// syslog(3) itself would wait for a daemon that does not read.
void to_system(Level level, const std::string& text) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, "/dev/log", sizeof address.sun_path - 1);
  const std::string line =
      fmt::format("<{}>nccl-check[{}]: {}", daemon_facility | static_cast<int>(level), ::getpid(), text);
  ::sendto(fd.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

}  // namespace

void log_to_system(bool on) { system_log = on; }

void log(Level level, std::string_view text) {
  const std::string shown = printable(text, 4000);
  const std::string line = "nccl-check: " + shown + "\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
  if (system_log) to_system(level, shown);
}

}  // namespace nccl_check
