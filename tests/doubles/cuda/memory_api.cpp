// Memory, by the driver's interface.
#include <cuda.h>

#include "tests/doubles/cuda/memory.hpp"
#include "tests/doubles/cuda/state.hpp"
#include "tests/doubles/description/faults.hpp"

using namespace nccl_check::doubles;

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  hang_or_crash(Stage::allocate, {.gpu = context->gpu});
  if (const Fault* fault = strikes(Kind::cuda_error, Stage::allocate, {.gpu = context->gpu}))
    return static_cast<CUresult>(fault->code);
  void* block = allocate(Place::device, context->gpu, bytes);
  *address = reinterpret_cast<CUdeviceptr>(block);
  return block == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (address == 0) return CUDA_SUCCESS;
  if (const CUresult result = cuCtxSynchronize()) return result;  // as the driver does: work may still use it
  return free_block(reinterpret_cast<void*>(address), Place::device) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (free_bytes == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *total = description()->host.memory;
  *free_bytes = *total - used_by(context->gpu);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *address = allocate(Place::pinned, -1, bytes);
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  return free_block(address, Place::pinned) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned flags) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  const auto block = block_of(host, 1);
  const bool mapped = block && (block->place == Place::pinned || block->place == Place::registered);
  if (device == nullptr || flags != 0 || !mapped) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return register_block(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
