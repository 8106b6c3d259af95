#include "node/gpu_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "base/process.hpp"
#include "base/text.hpp"

namespace nccl_check::node {
namespace {

namespace fs = std::filesystem;

struct DeviceFile {
  std::string name;
  unsigned major;
  unsigned minor;
};

// "195 nvidia" (older: "195 nvidia-frontend"), "505 nvidia-uvm".
std::optional<unsigned> major_of(const std::string& root, const std::vector<std::string>& drivers) {
  std::ifstream file(root + "/proc/devices");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    unsigned major = 0;
    std::string driver;
    if (!(words >> major >> driver)) continue;
    for (const auto& wanted : drivers)
      if (driver == wanted) return major;
  }
  return std::nullopt;
}

// "Device Minor: 	 3" in /proc/driver/nvidia/gpus/*/information.
std::vector<unsigned> gpu_minors(const std::string& root) {
  std::vector<unsigned> minors;
  std::error_code none;
  for (const auto& gpu : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", none)) {
    std::ifstream file(gpu.path() / "information");
    std::string line;
    while (std::getline(file, line)) {
      constexpr std::string_view key = "Device Minor:";
      if (!line.starts_with(key)) continue;
      std::istringstream value(line.substr(key.size()));
      unsigned minor = 0;
      if (value >> minor) minors.push_back(minor);
    }
  }
  return minors;
}

bool is_there(const std::string& root, const std::string& name) {
  struct stat status {};
  return ::stat((root + "/dev/" + name).c_str(), &status) == 0;
}

void run_helper(const std::string& root, const std::string& program, std::vector<std::string> arguments,
                Deadline deadline) {
  if (root != "/" || ::access(program.c_str(), X_OK) != 0) return;
  // What it could not do is seen by what is missing afterwards.
  (void)run({program, std::move(arguments), {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, {}, {}}, "", deadline,
            4096);
}

}  // namespace

Status make_gpu_files(const std::string& root, Deadline deadline) {
  const std::vector<std::string> gpu_drivers{"nvidia", "nvidia-frontend"};
  if (!major_of(root, gpu_drivers)) return success();
  const bool loaded = major_of(root, {"nvidia-uvm"}).has_value();
  if (!loaded || !is_there(root, "nvidia-uvm")) {
    run_helper(root, "/usr/bin/nvidia-modprobe", {"-u", "-c", "0"}, deadline);
    if (!major_of(root, {"nvidia-uvm"})) run_helper(root, "/usr/sbin/modprobe", {"nvidia-uvm"}, deadline);
  }
  const auto uvm = major_of(root, {"nvidia-uvm"});
  if (!uvm)
    return Error{"the kernel module nvidia-uvm is not loaded", "/proc/devices",
                 "load it: nvidia-modprobe -u, or modprobe nvidia-uvm"};
  const auto gpu = *major_of(root, gpu_drivers);
  std::vector<DeviceFile> files{
      {"nvidiactl", gpu, 255}, {"nvidia-uvm", *uvm, 0}, {"nvidia-uvm-tools", *uvm, 1}};
  for (auto minor : gpu_minors(root)) files.push_back({fmt::format("nvidia{}", minor), gpu, minor});
  for (const auto& file : files) {
    if (is_there(root, file.name)) continue;
    const std::string path = root + "/dev/" + file.name;
    const mode_t old = ::umask(0);
    const int made = ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(file.major, file.minor));
    const int why = errno;
    ::umask(old);
    if (made != 0 && why != EEXIST)
      return Error{fmt::format("can't make the device file: {}", std::strerror(why)), path,
                   "run nvidia-modprobe -u -c 0 as root"};
  }
  return success();
}

}  // namespace nccl_check::node
