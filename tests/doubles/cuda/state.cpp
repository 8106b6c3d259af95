#include "tests/doubles/cuda/state.hpp"

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/identity.hpp"

namespace nccl_check::doubles {
namespace {

std::atomic<bool> initialized{false};
thread_local Context* thread_context = nullptr;

const std::vector<Context*>& contexts() {
  static const auto& all = *[] {
    auto* made = new std::vector<Context*>;
    for (const int gpu : visible()) {
      made->push_back(new Context);
      made->back()->device = static_cast<CUdevice>(made->size() - 1);
      made->back()->gpu = gpu;
    }
    return made;
  }();
  return all;
}

Context* context_by_gpu(int gpu) {
  for (Context* context : contexts()) {
    if (context->gpu == gpu) return context;
  }
  return nullptr;
}

CUresult alive(Context& context) {
  const std::lock_guard lock(context.mutex);
  return context.retained == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context.broken.load();
}

}  // namespace

CUresult initialize() {
  if (description() == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  hang_or_crash(Stage::init, {});
  if (const Fault* fault = strikes(Kind::cuda_error, Stage::init, {}))
    return static_cast<CUresult>(fault->code);
  if (contexts().empty()) return CUDA_ERROR_NO_DEVICE;
  initialized = true;
  return CUDA_SUCCESS;
}

CUresult ready() {
  if (description() == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int device_count() {
  return static_cast<int>(contexts().size());
}

CUresult context_of(CUdevice device, Context*& context) {
  if (const CUresult result = ready()) return result;
  if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  context = contexts()[static_cast<std::size_t>(device)];
  return CUDA_SUCCESS;
}

CUresult known(CUcontext handle, Context*& context) {
  if (const CUresult result = ready()) return result;
  for (Context* candidate : contexts()) {
    if (reinterpret_cast<CUcontext>(candidate) != handle) continue;
    context = candidate;
    return alive(*candidate);
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

void set_current(Context* context) {
  thread_context = context;
}
Context* peek_current() {
  return thread_context;
}

CUresult current(Context*& context) {
  if (const CUresult result = ready()) return result;
  if (thread_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context = thread_context;
  return alive(*context);
}

std::shared_ptr<Stream> default_stream_of(int gpu) {
  Context* context = context_by_gpu(gpu);
  if (context == nullptr) return nullptr;
  const std::lock_guard lock(context->mutex);
  return context->default_stream;
}

CUresult stream_of(CUstream handle, std::shared_ptr<Stream>& stream, Context*& context) {
  if (const CUresult result = current(context)) return result;
  if (handle == nullptr) {
    const std::lock_guard lock(context->mutex);
    stream = context->default_stream;
    return CUDA_SUCCESS;
  }
  stream = handles<Stream>().find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  context = context_by_gpu(stream->gpu());
  return alive(*context);
}

}  // namespace nccl_check::doubles
