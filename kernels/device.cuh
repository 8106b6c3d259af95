#pragma once
// Memory accesses of the kernels: 16 bytes at once, streaming, kept out of the first cache.
#include "kernels/groups.hpp"

namespace nccl_check::kernels {

struct Place {
  std::uint64_t thread;   // in the grid
  std::uint64_t threads;  // of the grid
};

__device__ __forceinline__ Place place() {
  return {std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, std::uint64_t{gridDim.x} * blockDim.x};
}

// volatile, so that the compiler keeps the loads of a round together and ahead of its stores.
__device__ __forceinline__ uint4 load_streaming(const uint4* from) {
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from)
               : "memory");
  return value;
}
__device__ __forceinline__ void store_streaming(uint4* to, uint4 value) {
  __stcs(to, value);
}

template <class T>
__device__ __forceinline__ T load_streaming(const T* from) {
  return __ldcs(from);
}
template <class T>
__device__ __forceinline__ void store_streaming(T* to, T value) {
  __stcs(to, value);
}

__device__ __forceinline__ std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace nccl_check::kernels
