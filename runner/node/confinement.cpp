#include "node/confinement.hpp"

#include <fstream>
#include <sstream>

#include "base/text.hpp"

namespace nccl_check::node {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A limit of the cgroup itself or of one above it.
bool limited(const std::string& mount, std::string group) {
  const auto all = first_line(mount + "/cpuset.cpus.effective");
  for (;;) {
    const auto folder = mount + group;
    const auto memory = first_line(folder + "/memory.max");
    const auto high = first_line(folder + "/memory.high");
    const auto cpus = first_line(folder + "/cpuset.cpus.effective");
    const auto quota = first_line(folder + "/cpu.max");
    if ((!memory.empty() && memory != "max") || (!high.empty() && high != "max")) return true;
    if (!quota.empty() && !quota.starts_with("max")) return true;
    if (!all.empty() && !cpus.empty() && cpus != all) return true;
    if (group.empty() || group == "/") return false;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

std::vector<std::string> ways_out(const std::string& root, const std::string& pid) {
  std::vector<std::string> out;
  std::ifstream file(root + "/proc/" + pid + "/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const auto parts = split(line, ':');  // hierarchy:controllers:path
    if (parts.size() < 3 || parts[2] == "/" || !parts[2].starts_with('/')) continue;
    if (parts[1].empty()) {
      const std::string mount = root + "/sys/fs/cgroup";
      if (limited(mount, parts[2])) out.push_back(mount + "/cgroup.procs");
      continue;
    }
    // Version 1: a hierarchy for each controller, whose root has no limits. Being out of it costs nothing.
    for (const auto& controller : split(parts[1], ','))
      if (controller == "cpuset" || controller == "memory" || controller == "cpu")
        out.push_back(root + "/sys/fs/cgroup/" + parts[1] + "/cgroup.procs");
  }
  return out;
}

}  // namespace nccl_check::node
