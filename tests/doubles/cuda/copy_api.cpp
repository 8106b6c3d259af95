// Copies, by the driver's interface.
#include <cuda.h>

#include <cstring>

#include "tests/doubles/cuda/copy.hpp"
#include "tests/doubles/description/rates.hpp"

using namespace nccl_check::doubles;

namespace {

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

CUresult finished(CUresult result) {
  return result != CUDA_SUCCESS ? result : cuStreamSynchronize(nullptr);
}

}  // namespace

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy({pointer(to), pointer(from), bytes}, stream, Expect::any);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy({pointer(to), from, bytes}, stream, Expect::host_to_device);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy({to, pointer(from), bytes}, stream, Expect::device_to_host);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy({pointer(to), pointer(from), bytes}, stream, Expect::device_to_device);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           std::size_t bytes, CUstream stream) {
  Context *one = nullptr, *other = nullptr;
  if (const CUresult result = known(to_context, one)) return result;
  if (const CUresult result = known(from_context, other)) return result;
  const auto target = block_of(pointer(to), bytes), source = block_of(pointer(from), bytes);
  if (!target || !source || target->gpu != one->gpu || source->gpu != other->gpu)
    return CUDA_ERROR_INVALID_VALUE;
  return copy({pointer(to), pointer(from), bytes}, stream, Expect::device_to_device);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return finished(cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr));
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return finished(cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream handle) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  const auto block = block_of(pointer(to), bytes);
  if (!block || block->place == Place::pageable) return CUDA_ERROR_INVALID_VALUE;
  stream->submit([=, target = stream.get()](double& now) {
    std::memset(pointer(to), value, bytes);
    now += lasting(static_cast<double>(bytes), memory_rate(context->gpu), target->next_key());
  });
  return CUDA_SUCCESS;
}
