#pragma once
// What a CUDA error means for the verdict, in words.
#include <string>
#include <string_view>

#include "engine/engine.hpp"

namespace nccl_check::engine::nccl {

// code: a CUresult. `name` as the driver calls it ("CUDA_ERROR_SYSTEM_NOT_READY"; may be empty), `doing` and
// `where` for the text: "creating the context", "GPU 1 (0000:3b:00.0)". Numbers: cuda.h, enum cudaError_enum.
Failure cuda_failure(int code, std::string_view name, std::string_view doing, std::string_view where);

}  // namespace nccl_check::engine::nccl
