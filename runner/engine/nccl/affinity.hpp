#pragma once
// The calling thread goes where the GPU is. By sysfs: hwloc's topology costs tens of milliseconds, and only
// the CPUs near one PCI device are asked for.
#include <string>
#include <string_view>
#include <vector>

namespace nccl_check::engine::nccl {

std::vector<int> parse_cpu_list(std::string_view text);  // "0-3,8" gives 0 1 2 3 8; empty: not understood

// `root` is where /sys is found. Only among the CPUs that the thread may use; where none of those is near, it
// stays where it is.
void bind_near(const std::string& root, const std::string& pci);

}  // namespace nccl_check::engine::nccl
