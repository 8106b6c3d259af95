#pragma once
// RDMA ports by sysfs: what could carry this node's part of the job.
#include <string>

namespace nccl_check::engine::nccl {

struct Ports {
  int active = 0;
  double rate = 0;   // GB/s of all active ones together
  std::string text;  // "8 ports at 400 Gb/s (mlx5_0:1, ...)"; empty: there is none
};

// `root` is where /sys is found ("/" on a live node).
Ports read_ports(const std::string& root);

}  // namespace nccl_check::engine::nccl
