// Contexts, by the driver's interface.
#include <cuda.h>

#include "tests/doubles/cuda/memory.hpp"
#include "tests/doubles/cuda/state.hpp"
#include "tests/doubles/description/faults.hpp"

using namespace nccl_check::doubles;

namespace {

std::vector<std::shared_ptr<Stream>> streams_of(Context& context) {
  const std::lock_guard lock(context.mutex);
  auto all = context.streams;
  all.push_back(context.default_stream);
  return all;
}

// What a context's making can meet.
CUresult met(int gpu) {
  hang_or_crash(Stage::context, {.gpu = gpu});
  if (const Fault* fault = strikes(Kind::cuda_error, Stage::context, {.gpu = gpu}))
    return static_cast<CUresult>(fault->code);
  const bool taken = standing(Kind::exclusive_process, {.gpu = gpu}) != nullptr &&
                     standing(Kind::busy, {.gpu = gpu}) != nullptr;
  return taken ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

void destroy(Context& context) {
  for (const auto& stream : context.streams) {
    handles<Stream>().take(static_cast<const void*>(stream.get()));
    stream->close();
  }
  context.default_stream->close();
  context.streams.clear();
  context.default_stream.reset();
  for (auto& peer : context.peers) peer = false;
  context.broken = CUDA_SUCCESS;
  free_all_of(context.gpu);
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  if (context->retained == 0) {
    if (const CUresult result = met(context->gpu)) return result;
    context->default_stream = Stream::make(context->gpu);
  }
  ++context->retained;
  *handle = reinterpret_cast<CUcontext>(context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  {
    const std::lock_guard lock(context->mutex);
    if (context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->retained > 1) {
      --context->retained;
      return CUDA_SUCCESS;
    }
  }
  for (const auto& stream : streams_of(*context)) stream->wait();
  const std::lock_guard lock(context->mutex);
  if (--context->retained == 0) destroy(*context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  *flags = 0;
  *active = context->retained > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  Context* context = nullptr;
  if (handle != nullptr) {
    const CUresult result = known(handle, context);
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return result;
    if (context == nullptr) return result;
  }
  set_current(context);
  return ready();
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  if (const CUresult result = ready()) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<CUcontext>(peek_current());
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  for (const auto& stream : streams_of(*context)) stream->wait();
  return context->broken;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  Context *context = nullptr, *other = nullptr;
  if (const CUresult result = current(context)) return result;
  if (const CUresult result = known(peer, other)) return result;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (other == context) return CUDA_ERROR_INVALID_DEVICE;
  const bool was = context->peers[static_cast<std::size_t>(other->gpu)].exchange(true);
  return was ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}
