#pragma once
// How fast things are, faults included. GB/s, which is bytes a nanosecond; durations in nanoseconds.
#include <cstdint>

namespace nccl_check::doubles {

double memory_rate(int gpu);
double host_rate(int gpu, bool pinned);
double peer_rate(int gpu, int peer);
double network_rate(int gpu, int ranks_on_host);  // of the GPU's NICs together

// A duration with its latency and noise; the same `key` gives the same noise.
double lasting(double bytes, double rate, std::uint64_t key);
std::uint64_t mixed(std::uint64_t value);  // a hash

}  // namespace nccl_check::doubles
