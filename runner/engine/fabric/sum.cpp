#include "engine/fabric/sum.hpp"

namespace nccl_check::engine::fabric {

void add(float* __restrict out, const float* __restrict a, const float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace nccl_check::engine::fabric
