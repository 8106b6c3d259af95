#pragma once
// Out of what confines slurmd. With CoreSpec and MemSpec slurmd lives in a cgroup of a few cores and little
// memory; a process that measures a node there would be slow, or killed, for no fault of the node's.
#include <string>
#include <vector>

namespace nccl_check::node {

// The files that a process writes "0" to, to leave its cgroups' limits on CPUs and memory; none where it has
// none, so that a worker stays in its service's cgroup on an ordinary node.
std::vector<std::string> ways_out(const std::string& root, const std::string& pid = "self");

}  // namespace nccl_check::node
