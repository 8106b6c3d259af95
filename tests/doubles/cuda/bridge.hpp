#pragma once
// What the stand-in of NCCL needs of that of the driver, beyond the driver's interface.
#include <cuda.h>

#include <functional>

namespace nccl_check::doubles::bridge {

struct Current {
  int device = -1;  // CUDA's index; -1: the thread has no context that can be used
  int gpu = -1;     // its number on the host
};
Current current();
// Work of a stream, or of this GPU's default one. False: there is no such stream.
bool submit(CUstream stream, int gpu, std::function<void(double& now)> work);
// Whether these bytes can be read and written by this GPU: its own memory, or the host's pinned.
bool usable(const void* address, std::size_t bytes, int gpu);

}  // namespace nccl_check::doubles::bridge
