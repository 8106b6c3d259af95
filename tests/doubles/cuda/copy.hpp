#pragma once
// How long data is under way, which memory it comes from decides, and copies.
#include <cuda.h>

#include "tests/doubles/cuda/memory.hpp"
#include "tests/doubles/cuda/state.hpp"

namespace nccl_check::doubles {

// GB/s between a GPU and such memory, seen from that GPU. Its own memory: of device memory.
double rate_to(int gpu, const Block& block);
void flip_a_bit(void* address, std::size_t bytes);

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};
// Where the kind of memory is given in the call's name, it must be that: INVALID_VALUE otherwise.
enum class Expect { any, host_to_device, device_to_host, device_to_device };
CUresult copy(const Copy& copy, CUstream stream, Expect expect);

}  // namespace nccl_check::doubles
