#pragma once
// The CUDA driver's functions, got at run time. Each is asked for by the interface version it has in this
// table, so that a newer header or driver does not change what is called.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "base/result.hpp"
#include "engine/nccl/library.hpp"

namespace nccl_check::engine::nccl {

// name, the type's version, which is also what cuGetProcAddress is asked for
#define NCCL_CHECK_CUDA_FUNCTIONS(X) \
  X(Init, 2000)                      \
  X(DriverGetVersion, 2020)          \
  X(DeviceGetCount, 2000)            \
  X(DeviceGet, 2000)                 \
  X(DeviceGetName, 2000)             \
  X(DeviceGetUuid, 11040)            \
  X(DeviceGetAttribute, 2000)        \
  X(DeviceGetPCIBusId, 4010)         \
  X(DevicePrimaryCtxRetain, 7000)    \
  X(CtxSetCurrent, 4000)             \
  X(DeviceCanAccessPeer, 4000)       \
  X(CtxEnablePeerAccess, 4000)       \
  X(MemAlloc, 3020)                  \
  X(MemFree, 3020)                   \
  X(MemGetInfo, 3020)                \
  X(MemHostAlloc, 2020)              \
  X(MemHostGetDevicePointer, 3020)   \
  X(MemcpyHtoDAsync, 3020)           \
  X(MemcpyDtoHAsync, 3020)           \
  X(MemcpyPeerAsync, 4000)           \
  X(MemsetD8Async, 3020)             \
  X(StreamCreate, 2000)              \
  X(StreamWaitEvent, 3020)           \
  X(EventCreate, 2000)               \
  X(EventRecord, 2000)               \
  X(EventQuery, 2000)                \
  X(EventElapsedTime, 2000)          \
  X(ModuleLoadData, 2000)            \
  X(ModuleGetFunction, 2000)         \
  X(LaunchKernel, 4000)              \
  X(GetErrorName, 6000)              \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050)

struct CudaApi {
#define NCCL_CHECK_MEMBER(name, version) PFN_cu##name##_v##version name = nullptr;
  NCCL_CHECK_CUDA_FUNCTIONS(NCCL_CHECK_MEMBER)
#undef NCCL_CHECK_MEMBER
  std::string path;
  int version = 0;  // of the driver's interface, as cuDriverGetVersion counts: 13000
};

// `path` empty: libcuda.so.1 by the loader's search. Does not touch any GPU.
Result<CudaApi> open_cuda(const std::string& path);

// Whether a driver of this version runs kernels that a toolkit of that version made: it must be at least as
// new in its major number (CUDA's minor version compatibility). The error names both.
Status driver_fits(int driver_version, int toolkit_version);

std::string cuda_version_text(int version);  // 13000: "13.0"

}  // namespace nccl_check::engine::nccl
