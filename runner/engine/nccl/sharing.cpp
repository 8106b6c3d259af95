#include "engine/nccl/sharing.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "base/files.hpp"
#include "base/text.hpp"

namespace nccl_check::engine::nccl {

int mps_daemon(const std::string& root, const char* pipe_directory) {
  // nvidia-cuda-mps-control's default folder and files: CUDA's MPS guide.
  const std::string folder = pipe_directory == nullptr ? root + "/tmp/nvidia-mps" : pipe_directory;
  auto text = read_file(folder + "/nvidia-cuda-mps-control.pid", 64, Trust::anyone);
  if (!text) return 0;
  int pid = 0;
  const auto word = trim(*text);
  std::from_chars(word.data(), word.data() + word.size(), pid);
  // A file that a dead daemon left behind says nothing.
  auto name = read_file(fmt::format("{}/proc/{}/comm", root, pid), 64, Trust::anyone);
  return pid > 0 && name && trim(*name).starts_with("nvidia-cuda-mps") ? pid : 0;
}

Failure with_holders(Failure failure, const Node& node, std::size_t gpu) {
  if (!node.nvml || node.monitors[gpu] == nullptr) return failure;
  std::vector<std::string> pids;
  for (const auto pid : processes_on(*node.nvml, node.monitors[gpu]))
    if (pid != static_cast<std::uint32_t>(::getpid())) pids.push_back(std::to_string(pid));
  if (!pids.empty()) failure.error.what += fmt::format("; processes on it: {}", join(pids, ", "));
  return failure;
}

}  // namespace nccl_check::engine::nccl
