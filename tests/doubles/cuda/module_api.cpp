// Modules and kernels, by the driver's interface.
#include <cuda.h>

#include <cstring>

#include "tests/doubles/cuda/launch.hpp"

using namespace nccl_check::doubles;

namespace {

struct Module {
  int gpu;
};

const nccl_check::kernels::Kernel* kernel_of(CUfunction function) {
  return reinterpret_cast<const nccl_check::kernels::Kernel*>(function);
}

// The first bytes of a fat binary, of its wrapper, or of a CUDA ELF file.
bool is_image(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  return magic == 0xba55ed50U || magic == 0x466243b1U || magic == 0x464c457fU;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_image(image)) return CUDA_ERROR_INVALID_IMAGE;
  const auto module = std::make_shared<Module>(Module{context->gpu});
  handles<Module>().add(module);
  *handle = reinterpret_cast<CUmodule>(module.get());
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  return handles<Module>().take(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  Context* context = nullptr;
  if (const CUresult result = current(context)) return result;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handles<Module>().find(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto* kernel = nccl_check::kernels::find_kernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(const_cast<nccl_check::kernels::Kernel*>(kernel));
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (const CUresult result = ready()) return result;
  if (value == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     std::size_t) {
  if (const CUresult result = ready()) return result;
  if (blocks == nullptr || function == nullptr || threads <= 0 || threads > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = std::min(2048 / threads, 32);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned, CUstream handle,
                        void** parameters, void** extra) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  const bool shaped = grid_x > 0 && grid_y > 0 && grid_z > 0 && block_x > 0 && block_y > 0 && block_z > 0 &&
                      static_cast<std::uint64_t>(block_x) * block_y * block_z <= 1024;
  if (function == nullptr || !shaped || parameters == nullptr || parameters[0] == nullptr ||
      extra != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Launch launch{kernel_of(function), {}};
  launch.arguments.resize(launch.kernel->argument_bytes);
  std::memcpy(launch.arguments.data(), parameters[0], launch.arguments.size());
  stream->submit([=, launch = std::move(launch), target = stream.get()](double& now) {
    run(launch, *context, *target, now);
  });
  return CUDA_SUCCESS;
}
