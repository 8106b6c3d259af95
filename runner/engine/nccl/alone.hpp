#pragma once
// What one or two GPUs measure without NCCL. Each runs on a thread of the crew.
#include "engine/engine.hpp"
#include "engine/nccl/crew.hpp"
#include "engine/nccl/device.hpp"

namespace nccl_check::engine::nccl {

// How often and with what data; `flip`: one bit is turned over between operation and verification, for tests.
struct Effort {
  int warmups = 1;
  int iterations = 5;
  std::uint64_t seed = 0;
  bool verify = true;
  bool flip = false;
};

// One half of the device's buffer copied into the other by a kernel: bytes read plus bytes written.
Trouble measure_memory(Device& device, const Effort& effort, const Patience& patience, Samples& out);

// Both ways at once by copy engines, halves of the buffers; the slower way's times, bytes of one way.
// The calling thread drives both.
Trouble measure_peers(Device& a, Device& b, const Effort& effort, const Patience& patience, Samples& out);

// The host link, by copy engine, one way after the other, with `bytes` of pinned memory. What came to the
// host is verified there by the GPU. Two efforts, of which only `flip` may differ.
struct HostEfforts {
  Effort to, from;
};
Trouble measure_host(Device& device, std::uint64_t bytes, const HostEfforts& efforts,
                     const Patience& patience, Samples& to, Samples& from);

}  // namespace nccl_check::engine::nccl
