// Streams, by the driver's interface.
#include <cuda.h>

#include "tests/doubles/cuda/event.hpp"
#include "tests/doubles/cuda/state.hpp"

using namespace nccl_check::doubles;

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (handle == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = Stream::make(context->gpu);
  const std::lock_guard lock(context->mutex);
  context->streams.push_back(stream);
  handles<Stream>().add(stream);
  *handle = reinterpret_cast<CUstream>(stream.get());
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  handles<Stream>().take(handle);
  stream->close();  // what was submitted is still done
  const std::lock_guard lock(context->mutex);
  std::erase(context->streams, stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  stream->wait();
  return context->broken;
}

CUresult cuStreamQuery(CUstream handle) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  if (!stream->idle()) return CUDA_ERROR_NOT_READY;
  return context->broken;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  const auto event = handles<Event>().find(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto record = event->latest();
  if (record == nullptr) return CUDA_SUCCESS;  // never recorded: nothing to wait for
  stream->submit([record](double& now) { now = std::max(now, record->wait()); });
  return CUDA_SUCCESS;
}
