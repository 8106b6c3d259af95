#pragma once
// Copy and triad: as many bytes an access as the buffers' addresses have in common, `loads` of them in
// flight.
#include "kernels/device.cuh"

namespace nccl_check::kernels {

constexpr int loads = 8;

__device__ __forceinline__ double2 triad_of(double2 from, double2 other) {
  return {__dadd_rn(from.x, __dmul_rn(3, other.x)), __dadd_rn(from.y, __dmul_rn(3, other.y))};
}
__device__ __forceinline__ double triad_of(double from, double other) {
  return __dadd_rn(from, __dmul_rn(3, other));
}

__device__ __forceinline__ void copy_bytes(const StreamArguments& a, std::uint64_t begin, std::uint64_t end,
                                           Place at) {
  const auto* from = static_cast<const unsigned char*>(a.from);
  auto* to = static_cast<unsigned char*>(a.to);
  for (std::uint64_t i = begin + at.thread; i < end; i += at.threads) to[i] = from[i];
}

// Both addresses are equal modulo T's size.
template <class T>
__device__ __forceinline__ void copy_as(const StreamArguments& a, Place at) {
  std::uint64_t head = (sizeof(T) - address_of(a.to) % sizeof(T)) % sizeof(T);
  if (head > a.bytes) head = a.bytes;
  const std::uint64_t count = (a.bytes - head) / sizeof(T);
  copy_bytes(a, 0, head, at);
  copy_bytes(a, head + count * sizeof(T), a.bytes, at);
  const T* from = reinterpret_cast<const T*>(static_cast<const unsigned char*>(a.from) + head);
  T* to = reinterpret_cast<T*>(static_cast<unsigned char*>(a.to) + head);
  std::uint64_t i = at.thread;
  for (; i + (loads - 1) * at.threads < count; i += loads * at.threads) {
    T held[loads];
#pragma unroll
    for (int k = 0; k < loads; ++k) held[k] = load_streaming(from + i + k * at.threads);
#pragma unroll
    for (int k = 0; k < loads; ++k) store_streaming(to + i + k * at.threads, held[k]);
  }
  for (; i < count; i += at.threads) store_streaming(to + i, load_streaming(from + i));
}

__device__ __forceinline__ double2 load_two(const double2* from) {
  const uint4 bits = load_streaming(reinterpret_cast<const uint4*>(from));
  return {__hiloint2double(static_cast<int>(bits.y), static_cast<int>(bits.x)),
          __hiloint2double(static_cast<int>(bits.w), static_cast<int>(bits.z))};
}

// Three buffers on 16 bytes.
__device__ __forceinline__ void triad_vectors(const StreamArguments& a, std::uint64_t count, Place at) {
  constexpr int pairs = loads / 2;
  const auto* from = static_cast<const double2*>(a.from);
  const auto* other = static_cast<const double2*>(a.other);
  auto* to = static_cast<double2*>(a.to);
  std::uint64_t i = at.thread;
  for (; i + (pairs - 1) * at.threads < count; i += pairs * at.threads) {
    double2 x[pairs];
    double2 y[pairs];
#pragma unroll
    for (int k = 0; k < pairs; ++k) {
      x[k] = load_two(from + i + k * at.threads);
      y[k] = load_two(other + i + k * at.threads);
    }
#pragma unroll
    for (int k = 0; k < pairs; ++k) store_streaming(to + i + k * at.threads, triad_of(x[k], y[k]));
  }
  for (; i < count; i += at.threads)
    store_streaming(to + i, triad_of(load_two(from + i), load_two(other + i)));
}

__device__ __forceinline__ double double_at(const void* data, std::uint64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(data) + index * 8;
  std::uint64_t bits = 0;
  for (int i = 7; i >= 0; --i) bits = bits << 8 | bytes[i];
  return __longlong_as_double(static_cast<long long>(bits));
}

// At any address, byte by byte.
__device__ __forceinline__ void triad_doubles(const StreamArguments& a, std::uint64_t begin,
                                              std::uint64_t end, Place at) {
  for (std::uint64_t i = begin + at.thread; i < end; i += at.threads) {
    const double value = triad_of(double_at(a.from, i), double_at(a.other, i));
    const auto bits = static_cast<std::uint64_t>(__double_as_longlong(value));
    auto* to = static_cast<unsigned char*>(a.to) + i * 8;
    for (int byte = 0; byte < 8; ++byte) to[byte] = static_cast<unsigned char>(bits >> (8 * byte));
  }
}

}  // namespace nccl_check::kernels
