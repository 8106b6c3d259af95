#include "kernels/image.hpp"

#include <cstddef>

#if NCCL_CHECK_CUDA_VERSION != 0
extern "C" const char nccl_check_kernels_begin[];
extern "C" const char nccl_check_kernels_end[];
#endif

namespace nccl_check::kernels {

std::string_view image() {
#if NCCL_CHECK_CUDA_VERSION != 0
  return {nccl_check_kernels_begin,
          static_cast<std::size_t>(nccl_check_kernels_end - nccl_check_kernels_begin)};
#else
  return {};
#endif
}

int toolkit_version() {
  return NCCL_CHECK_CUDA_VERSION;
}
std::string_view architectures() {
  return NCCL_CHECK_CUDA_ARCHITECTURES;
}

}  // namespace nccl_check::kernels
