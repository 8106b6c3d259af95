#pragma once
// The kernels as nvcc made them, embedded in the program.
#include <string_view>

namespace nccl_check::kernels {

// A fat binary, to be given to cuModuleLoadData. Empty: this build was made without nvcc.
std::string_view image();
// As cuDriverGetVersion counts: 13000. The driver must be at least as new in its major number. 0: no nvcc.
int toolkit_version();
// "sm_75, sm_80, sm_90, sm_100, sm_120, PTX of compute_120"
std::string_view architectures();

}  // namespace nccl_check::kernels
