// The kernels. Which variant of a loop runs is decided once, outside of it.
#include "kernels/report.cuh"
#include "kernels/stream.cuh"

namespace nccl_check::kernels {
namespace {

template <bool single>
__device__ __forceinline__ void fill_by_size(const FillArguments& a, const Groups& groups) {
  switch (format_of(a.type).bits) {
    case 8:
      return fill_groups<1, single>(a, groups, place());
    case 16:
      return fill_groups<2, single>(a, groups, place());
    case 32:
      return fill_groups<4, single>(a, groups, place());
    default:
      return fill_groups<8, single>(a, groups, place());
  }
}

template <int size, bool single>
__device__ __forceinline__ void verify_and_report(const VerifyArguments& a, const Groups& groups) {
  report<size, single>(a, groups, verify_groups<size, single>(a, groups, place()));
}

template <bool single>
__device__ __forceinline__ void verify_by_size(const VerifyArguments& a, const Groups& groups) {
  switch (format_of(a.type).bits) {
    case 8:
      return verify_and_report<1, single>(a, groups);
    case 16:
      return verify_and_report<2, single>(a, groups);
    case 32:
      return verify_and_report<4, single>(a, groups);
    default:
      return verify_and_report<8, single>(a, groups);
  }
}

}  // namespace
}  // namespace nccl_check::kernels

using namespace nccl_check::kernels;

extern "C" __global__ void nccl_check_fill(FillArguments a) {
  __shared__ __align__(16) std::uint32_t table[table_words];
  const Groups groups = make_groups(make_pattern(a.type, a.reduction, a.seed, a.rank, a.ranks), table);
  if (groups.pattern.ranks == 1) {
    fill_by_size<true>(a, groups);
  } else {
    fill_by_size<false>(a, groups);
  }
}

extern "C" __global__ void nccl_check_verify(VerifyArguments a) {
  __shared__ __align__(16) std::uint32_t table[table_words];
  const Groups groups = make_groups(make_pattern(a.type, a.reduction, a.seed, a.rank, a.ranks), table);
  if (groups.pattern.ranks == 1) {
    verify_by_size<true>(a, groups);
  } else {
    verify_by_size<false>(a, groups);
  }
}

extern "C" __global__ void nccl_check_copy(StreamArguments a) {
  const std::uint64_t apart = address_of(a.to) ^ address_of(a.from);
  if (apart % 16 == 0) return copy_as<uint4>(a, place());
  if (apart % 8 == 0) return copy_as<unsigned long long>(a, place());
  if (apart % 4 == 0) return copy_as<unsigned int>(a, place());
  if (apart % 2 == 0) return copy_as<unsigned short>(a, place());
  copy_as<unsigned char>(a, place());
}

extern "C" __global__ void nccl_check_triad(StreamArguments a) {
  const std::uint64_t count = a.bytes / 8;
  const std::uint64_t low = address_of(a.to) | address_of(a.from) | address_of(a.other);
  const std::uint64_t vectors = low % 16 == 0 ? count / 2 : 0;
  triad_vectors(a, vectors, place());
  triad_doubles(a, vectors * 2, count, place());
}

extern "C" __global__ void nccl_check_latch(LatchArguments a) {
  if (place().thread != 0) return;
  const auto now = [] {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  };
  const std::uint64_t start = now();
  while (static_cast<std::int32_t>(*a.flag - a.value) < 0 && now() - start < a.most_ns) __nanosleep(200);
}

extern "C" __global__ void nccl_check_flip(FlipArguments a) {
  if (place().thread == 0) static_cast<unsigned char*>(a.data)[a.offset] ^= 1U;
}
