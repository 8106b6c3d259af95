// Events, by the driver's interface.
#include <cuda.h>

#include "tests/doubles/cuda/event.hpp"
#include "tests/doubles/cuda/state.hpp"

using namespace nccl_check::doubles;

#undef cuEventElapsedTime  // the header gives the name to _v2; the first is a function of its own
extern "C" CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto event = std::make_shared<Event>((flags & CU_EVENT_DISABLE_TIMING) == 0);
  handles<Event>().add(event);
  *handle = reinterpret_cast<CUevent>(event.get());
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (const CUresult result = ready()) return result;
  return handles<Event>().take(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(stream_handle, stream, context)) return result;
  const auto event = handles<Event>().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto record = std::make_shared<Record>(context->gpu);
  event->set(record);
  stream->submit([record](double& now) { record->reach(now); });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  if (const CUresult result = ready()) return result;
  const auto event = handles<Event>().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto record = event->latest();
  return record == nullptr || record->reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  if (const CUresult result = ready()) return result;
  const auto event = handles<Event>().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto record = event->latest()) record->wait();
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  if (const CUresult result = ready()) return result;
  const auto first = handles<Event>().find(start), last = handles<Event>().find(end);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (first == nullptr || last == nullptr || !first->timed() || !last->timed())
    return CUDA_ERROR_INVALID_HANDLE;
  const auto from = first->latest(), to = last->latest();
  if (from == nullptr || to == nullptr || from->gpu() != to->gpu()) return CUDA_ERROR_INVALID_HANDLE;
  if (!from->reached() || !to->reached()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((to->wait() - from->wait()) / 1e6);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}
