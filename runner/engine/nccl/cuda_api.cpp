#include "engine/nccl/cuda_api.hpp"

#include <fmt/format.h>

namespace nccl_check::engine::nccl {
namespace {

constexpr Wanted wanted{"the CUDA driver", "libcuda.so.1",
                        "install the NVIDIA driver's libraries, or name libcuda's path"};

template <class Function>
bool resolve(PFN_cuGetProcAddress_v12000 get, const char* name, int version, Function& out) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult result{};
  if (get(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &result) != CUDA_SUCCESS) return false;
  out = reinterpret_cast<Function>(found);
  return out != nullptr;
}

}  // namespace

Result<CudaApi> open_cuda(const std::string& path) {
  auto library = open_library(wanted, path);
  if (!library) return library.error();
  const std::string remedy = "a driver for CUDA 12 or newer is needed (525 and up)";
  PFN_cuGetProcAddress_v12000 get = nullptr;
  if (!library->find("cuGetProcAddress_v2", get))
    return Error{"the CUDA driver has no cuGetProcAddress_v2", library->path, remedy};
  CudaApi api;
  api.path = library->path;
  const char* missing = nullptr;
#define NCCL_CHECK_RESOLVE(name, number) \
  if (!resolve(get, "cu" #name, number, api.name)) missing = "cu" #name;
  NCCL_CHECK_CUDA_FUNCTIONS(NCCL_CHECK_RESOLVE)
#undef NCCL_CHECK_RESOLVE
  if (missing != nullptr)
    return Error{fmt::format("the CUDA driver has no {}", missing), library->path, remedy};
  if (api.DriverGetVersion(&api.version) != CUDA_SUCCESS)
    return Error{"the CUDA driver does not say its version", library->path, ""};
  return api;
}

Status driver_fits(int driver_version, int toolkit_version) {
  if (driver_version / 1000 >= toolkit_version / 1000) return success();
  return Error{fmt::format("the driver is for CUDA {}, but this nccl-check was built with CUDA {}",
                           cuda_version_text(driver_version), cuda_version_text(toolkit_version)),
               "", "update the driver, or build nccl-check with the driver's CUDA or an older one"};
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace nccl_check::engine::nccl
