// Errors' names and texts.
#include <cuda.h>

#include <map>

namespace {

struct Text {
  const char* name;
  const char* text;
};

const std::map<CUresult, Text>& texts() {
  static const auto& all = *new std::map<CUresult, Text>{
      {CUDA_SUCCESS, {"CUDA_SUCCESS", "no error"}},
      {CUDA_ERROR_INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
      {CUDA_ERROR_OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {CUDA_ERROR_NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
      {CUDA_ERROR_DEVICE_UNAVAILABLE,
       {"CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"}},
      {CUDA_ERROR_NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
      {CUDA_ERROR_INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
      {CUDA_ERROR_INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
      {CUDA_ERROR_INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
      {CUDA_ERROR_ECC_UNCORRECTABLE, {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"}},
      {CUDA_ERROR_NVLINK_UNCORRECTABLE,
       {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution"}},
      {CUDA_ERROR_OPERATING_SYSTEM,
       {"CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"}},
      {CUDA_ERROR_INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
      {CUDA_ERROR_NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
      {CUDA_ERROR_NOT_READY, {"CUDA_ERROR_NOT_READY", "device not ready"}},
      {CUDA_ERROR_ILLEGAL_ADDRESS,
       {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
      {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
       {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"}},
      {CUDA_ERROR_CONTEXT_IS_DESTROYED, {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"}},
      {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
       {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        "part or all of the requested memory range is already mapped"}},
      {CUDA_ERROR_LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
      {CUDA_ERROR_SYSTEM_NOT_READY, {"CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"}},
      {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
       {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "system has unsupported display driver / cuda driver combination"}},
      {CUDA_ERROR_UNKNOWN, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
  };
  return all;
}

CUresult look_up(CUresult error, const char** text, const char* Text::*which) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = texts().find(error);
  *text = found == texts().end() ? nullptr : found->second.*which;
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** text) {
  return look_up(error, text, &Text::name);
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  return look_up(error, text, &Text::text);
}
