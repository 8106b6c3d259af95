#pragma once
// How a block's findings get into Mismatches.
#include "kernels/data.cuh"

namespace nccl_check::kernels {

// The lowest position seen by any block of any launch wins, and the three fields are always of one position:
// the highest bit of first_wrong locks them. One thread a block comes here, so none waits for its own warp.
__device__ __forceinline__ void publish(Mismatches* found, std::uint64_t position, std::uint64_t got,
                                        std::uint64_t expected) {
  constexpr unsigned long long lock = 1ULL << 63;
  auto* word = reinterpret_cast<unsigned long long*>(&found->first_wrong);
  unsigned long long seen = atomicAdd(word, 0);
  while (true) {
    if ((seen & lock) != 0) {
      __nanosleep(100);
      seen = atomicAdd(word, 0);
      continue;
    }
    if (seen != 0 && seen <= position + 1) return;
    const unsigned long long before = atomicCAS(word, seen, seen | lock);
    if (before == seen) break;
    seen = before;
  }
  __threadfence();
  *static_cast<volatile std::uint64_t*>(&found->got) = got;
  *static_cast<volatile std::uint64_t*>(&found->expected) = expected;
  __threadfence();
  atomicExch(word, position + 1);
}

// The lowest wrong element of a group, looked at again.
template <int size, bool single>
__device__ __forceinline__ void publish_group(const VerifyArguments& a, const Groups& groups,
                                              std::uint64_t group) {
  const unsigned char* origin = static_cast<const unsigned char*>(a.data) - a.first * size;
  const Part part = part_of<size>(range_of(a.first, a.count, size), group);
  const Words expected = group_at<size, single>(groups, group);
  const Words got = load_part<size>(origin + group * group_bytes, part, expected);
  std::uint64_t position = none;
  std::uint64_t is = 0;
  std::uint64_t should = 0;
#pragma unroll
  for (int i = group_bytes / size - 1; i >= 0; --i) {
    const std::uint64_t x = element_of<size>(got, i);
    const std::uint64_t y = element_of<size>(expected, i);
    if (x == y) continue;
    position = group * (group_bytes / size) + i;
    is = x;
    should = y;
  }
  if (position != none) publish(a.found, position, is, should);
}

// The whole block together.
template <int size, bool single>
__device__ __forceinline__ void report(const VerifyArguments& a, const Groups& groups, const Found& found) {
  if (__syncthreads_or(found.wrong != 0) == 0) return;
  __shared__ unsigned long long wrong;
  __shared__ unsigned long long lowest_group;
  if (threadIdx.x == 0) {
    wrong = 0;
    lowest_group = none;
  }
  __syncthreads();
  if (found.wrong != 0) {
    atomicAdd(&wrong, static_cast<unsigned long long>(found.wrong));
    atomicMin(&lowest_group, static_cast<unsigned long long>(found.first_group));
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&a.found->wrong), wrong);
  if (found.wrong != 0 && found.first_group == lowest_group)
    publish_group<size, single>(a, groups, lowest_group);
}

}  // namespace nccl_check::kernels
