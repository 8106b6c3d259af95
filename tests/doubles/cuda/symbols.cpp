// cuGetProcAddress: names without their _v2, each from the CUDA version on in which that form came.
#include <cuda.h>

#include <cstring>

#include "tests/doubles/description/description.hpp"

#undef cuEventElapsedTime
extern "C" CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);

namespace {

struct Symbol {
  const char* name;
  int version;
  void* function;
};

template <class Function>
Symbol symbol(const char* name, int version, Function* function) {
  return {name, version, reinterpret_cast<void*>(function)};
}

const Symbol* begin(std::size_t& count) {
  static const Symbol all[] = {
      symbol("cuGetProcAddress", 12000, &cuGetProcAddress_v2),
      symbol("cuInit", 2000, &cuInit),
      symbol("cuDriverGetVersion", 2020, &cuDriverGetVersion),
      symbol("cuDeviceGetCount", 2000, &cuDeviceGetCount),
      symbol("cuDeviceGet", 2000, &cuDeviceGet),
      symbol("cuDeviceGetName", 2000, &cuDeviceGetName),
      symbol("cuDeviceGetUuid", 11040, &cuDeviceGetUuid_v2),
      symbol("cuDeviceGetAttribute", 2000, &cuDeviceGetAttribute),
      symbol("cuDeviceTotalMem", 3020, &cuDeviceTotalMem_v2),
      symbol("cuDeviceGetPCIBusId", 4010, &cuDeviceGetPCIBusId),
      symbol("cuDeviceGetByPCIBusId", 4010, &cuDeviceGetByPCIBusId),
      symbol("cuDevicePrimaryCtxRetain", 7000, &cuDevicePrimaryCtxRetain),
      symbol("cuDevicePrimaryCtxRelease", 11000, &cuDevicePrimaryCtxRelease_v2),
      symbol("cuDevicePrimaryCtxGetState", 7000, &cuDevicePrimaryCtxGetState),
      symbol("cuCtxSetCurrent", 4000, &cuCtxSetCurrent),
      symbol("cuCtxGetCurrent", 4000, &cuCtxGetCurrent),
      symbol("cuCtxSynchronize", 2000, &cuCtxSynchronize),
      symbol("cuDeviceCanAccessPeer", 4000, &cuDeviceCanAccessPeer),
      symbol("cuDeviceGetP2PAttribute", 8000, &cuDeviceGetP2PAttribute),
      symbol("cuCtxEnablePeerAccess", 4000, &cuCtxEnablePeerAccess),
      symbol("cuMemAlloc", 3020, &cuMemAlloc_v2),
      symbol("cuMemFree", 3020, &cuMemFree_v2),
      symbol("cuMemGetInfo", 3020, &cuMemGetInfo_v2),
      symbol("cuMemHostAlloc", 2020, &cuMemHostAlloc),
      symbol("cuMemFreeHost", 2000, &cuMemFreeHost),
      symbol("cuMemHostGetDevicePointer", 3020, &cuMemHostGetDevicePointer_v2),
      symbol("cuMemHostRegister", 6050, &cuMemHostRegister_v2),
      symbol("cuMemcpyAsync", 4000, &cuMemcpyAsync),
      symbol("cuMemcpyHtoDAsync", 3020, &cuMemcpyHtoDAsync_v2),
      symbol("cuMemcpyDtoHAsync", 3020, &cuMemcpyDtoHAsync_v2),
      symbol("cuMemcpyDtoDAsync", 3020, &cuMemcpyDtoDAsync_v2),
      symbol("cuMemcpyPeerAsync", 4000, &cuMemcpyPeerAsync),
      symbol("cuMemsetD8Async", 3020, &cuMemsetD8Async),
      symbol("cuMemcpyHtoD", 3020, &cuMemcpyHtoD_v2),
      symbol("cuMemcpyDtoH", 3020, &cuMemcpyDtoH_v2),
      symbol("cuStreamCreate", 2000, &cuStreamCreate),
      symbol("cuStreamDestroy", 4000, &cuStreamDestroy_v2),
      symbol("cuStreamSynchronize", 2000, &cuStreamSynchronize),
      symbol("cuStreamQuery", 2000, &cuStreamQuery),
      symbol("cuStreamWaitEvent", 3020, &cuStreamWaitEvent),
      symbol("cuEventCreate", 2000, &cuEventCreate),
      symbol("cuEventDestroy", 4000, &cuEventDestroy_v2),
      symbol("cuEventRecord", 2000, &cuEventRecord),
      symbol("cuEventQuery", 2000, &cuEventQuery),
      symbol("cuEventSynchronize", 2000, &cuEventSynchronize),
      symbol("cuEventElapsedTime", 12080, &cuEventElapsedTime_v2),
      symbol("cuEventElapsedTime", 2000, &cuEventElapsedTime),
      symbol("cuModuleLoadData", 2000, &cuModuleLoadData),
      symbol("cuModuleUnload", 2000, &cuModuleUnload),
      symbol("cuModuleGetFunction", 2000, &cuModuleGetFunction),
      symbol("cuFuncGetAttribute", 2020, &cuFuncGetAttribute),
      symbol("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050,
             &cuOccupancyMaxActiveBlocksPerMultiprocessor),
      symbol("cuLaunchKernel", 4000, &cuLaunchKernel),
      symbol("cuGetErrorName", 6000, &cuGetErrorName),
      symbol("cuGetErrorString", 6000, &cuGetErrorString),
  };
  count = sizeof all / sizeof all[0];
  return all;
}

}  // namespace

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult* status) {
  const auto* description = nccl_check::doubles::description();
  if (description == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *function = nullptr;
  std::size_t count = 0;
  const Symbol* all = begin(count);
  for (std::size_t i = 0; i < count && *function == nullptr; ++i) {
    if (std::strcmp(all[i].name, name) != 0 || all[i].version > description->host.driver) continue;
    const bool fits = all[i].version <= version;
    found = fits ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (fits) *function = all[i].function;
  }
  if (status != nullptr) *status = found;
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
