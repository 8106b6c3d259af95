#pragma once
// The border between Slurm's C and this code: an exception that crossed it would end slurmd or drain the
// node.
#include <exception>

#include "spank/slurm_api.hpp"

namespace nccl_check::spank {

// What `body` returns, or `otherwise` if it threw, which is logged with the hook's name.
template <class Body>
int guarded(const char* hook, int otherwise, Body&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& e) {
    slurm_error("nccl-check: %s: %s", hook, e.what());
  } catch (...) {
    slurm_error("nccl-check: %s: an unknown exception", hook);
  }
  return otherwise;
}

}  // namespace nccl_check::spank
