#pragma once
// Kernels run as their host functions.
#include <cuda.h>

#include <vector>

#include "kernels/kernels.hpp"
#include "tests/doubles/cuda/state.hpp"

namespace nccl_check::doubles {

struct Launch {
  const kernels::Kernel* kernel;
  std::vector<unsigned char> arguments;  // copied at the launch, as the driver does
};
void run(const Launch& launch, Context& context, Stream& stream, double& now);

}  // namespace nccl_check::doubles
