#include "tests/doubles/cuda/bridge.hpp"

#include "tests/doubles/cuda/memory.hpp"
#include "tests/doubles/cuda/state.hpp"

namespace nccl_check::doubles::bridge {

Current current() {
  Context* context = nullptr;
  if (doubles::current(context) != CUDA_SUCCESS) return {};
  return {context->device, context->gpu};
}

bool submit(CUstream handle, int gpu, std::function<void(double& now)> work) {
  const auto stream = handle != nullptr ? handles<Stream>().find(handle) : default_stream_of(gpu);
  if (stream == nullptr) return false;
  stream->submit(std::move(work));
  return true;
}

bool usable(const void* address, std::size_t bytes, int gpu) {
  const auto block = block_of(address, bytes);
  if (!block || block->place == Place::pageable) return false;
  return block->place != Place::device || block->gpu == gpu;
}

}  // namespace nccl_check::doubles::bridge
