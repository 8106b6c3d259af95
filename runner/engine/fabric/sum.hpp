#pragma once
#include <cstddef>

namespace nccl_check::engine::fabric {

// out = a + b, element by element. Nothing overlaps.
void add(float* out, const float* a, const float* b, std::size_t count);

}  // namespace nccl_check::engine::fabric
