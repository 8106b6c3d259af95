#include "private_run.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace nccl_check::fake {
namespace {

bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

}  // namespace

std::string enter_private_run() {
  const auto failed = [](const char* doing) { return std::string(doing) + ": " + std::strerror(errno); };
  const auto user = ::getuid();
  const auto group = ::getgid();
  if (::unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return failed("unshare");
  if (user != 0 && (!write_text("/proc/self/setgroups", "deny") ||
                    !write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") ||
                    !write_text("/proc/self/gid_map", "0 " + std::to_string(group) + " 1")))
    return failed("map the user");
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("make mounts private");
  if (::mount("nccl-check-test", "/run", "tmpfs", 0, "mode=755") != 0) return failed("mount a tmpfs on /run");
  for (const char* folder : {"/run/nccl-check", "/run/nccl-check/jobs"})
    if (::mkdir(folder, 0755) != 0) return failed(folder);
  return "";
}

}  // namespace nccl_check::fake
