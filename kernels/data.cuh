#pragma once
// Fill and verify: `batch` groups a round, their stores or loads in flight together.
#include "kernels/device.cuh"

namespace nccl_check::kernels {

constexpr int batch = 4;

struct Groups {
  Pattern pattern;
  Clamp clamp;
  const std::uint32_t* table;
};

// The whole block together.
__device__ __forceinline__ Groups make_groups(const Pattern& pattern, std::uint32_t* table) {
  if (pattern.ranks > 1) {
    for (std::uint32_t i = threadIdx.x; i < table_rows(pattern) * codes; i += blockDim.x) {
      put_entry(table, pattern, i / codes, i % codes);
    }
    __syncthreads();
  }
  return {pattern, make_clamp(pattern), table};
}

// The code for one rank and the one for several are both small; which, is decided outside of the loop.
template <int size, bool single>
__device__ __forceinline__ Words group_at(const Groups& groups, std::uint64_t group) {
  return single ? single_group<size>(groups.pattern, groups.clamp, group)
                : table_group<size>(groups.pattern, groups.table, group);
}

// The group's elements that are in the range: first and how many.
struct Part {
  std::uint32_t index;
  std::uint32_t count;
};
template <int size>
__device__ __forceinline__ Part part_of(const Range& range, std::uint64_t group) {
  constexpr std::uint64_t elements = group_bytes / size;
  const std::uint64_t start = group * elements;
  const std::uint64_t begin = start < range.begin ? range.begin : start;
  const std::uint64_t end = start + elements > range.end ? range.end : start + elements;
  return {static_cast<std::uint32_t>(begin - start), static_cast<std::uint32_t>(end - begin)};
}

// Byte by byte: the ends, and data that doesn't lie as the groups do.
template <int size>
__device__ __forceinline__ void store_part(unsigned char* group_at, Part part, const Words& words) {
#pragma unroll
  for (std::uint32_t i = 0; i < group_bytes; ++i) {
    const bool inside = i >= part.index * size && i < (part.index + part.count) * size;
    if (inside) group_at[i] = static_cast<unsigned char>(words.word[i / 4] >> (i % 4 * 8));
  }
}
template <int size>
__device__ __forceinline__ Words load_part(const unsigned char* group_at, Part part, const Words& elsewhere) {
  Words words{};
#pragma unroll
  for (std::uint32_t i = 0; i < group_bytes; ++i) {
    const bool inside = i >= part.index * size && i < (part.index + part.count) * size;
    const std::uint32_t byte = inside ? group_at[i] : elsewhere.word[i / 4] >> (i % 4 * 8) & 0xffU;
    words.word[i / 4] |= byte << (i % 4 * 8);
  }
  return words;
}

template <int size, bool single>
__device__ __forceinline__ void fill_groups(const FillArguments& a, const Groups& groups, Place at) {
  const Range range = range_of(a.first, a.count, size);
  unsigned char* origin = static_cast<unsigned char*>(a.data) - a.first * size;  // of position 0
  const auto edge = [&](std::uint64_t group) {
    const Words words = group_at<size, single>(groups, group);
    store_part<size>(origin + group * group_bytes, part_of<size>(range, group), words);
  };
  if (address_of(origin) % group_bytes != 0) {
    for (std::uint64_t g = range.first_group + at.thread; g < range.last_group; g += at.threads) edge(g);
    return;
  }
  auto* whole = reinterpret_cast<uint4*>(origin);
  if (at.thread == 0 && range.first_group < range.full_begin) edge(range.first_group);
  const auto store = [&](std::uint64_t g) {
    const Words words = group_at<size, single>(groups, g);
    store_streaming(whole + g, make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]));
  };
  std::uint64_t g = range.full_begin + at.thread;
  for (; g + (batch - 1) * at.threads < range.full_end; g += batch * at.threads) {
#pragma unroll
    for (int k = 0; k < batch; ++k) store(g + k * at.threads);
  }
  for (; g < range.full_end; g += at.threads) store(g);
  const bool own_tail = range.last_group > range.full_end && range.last_group - 1 >= range.full_begin;
  if (at.thread == 0 && own_tail) edge(range.last_group - 1);
}

// What one thread found. Its groups ascend, so the first is its lowest.
struct Found {
  std::uint64_t wrong;
  std::uint64_t first_group;
};
constexpr std::uint64_t none = ~std::uint64_t{0};

template <int size>
__device__ __forceinline__ std::uint32_t count_wrong(const Words& differ) {
  const auto any = [](std::uint32_t word) { return word != 0 ? 1U : 0U; };
  if (size == 8) return any(differ.word[0] | differ.word[1]) + any(differ.word[2] | differ.word[3]);
  std::uint32_t wrong = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (size == 1) wrong += __popc(__vcmpne4(differ.word[i], 0)) / 8;
    if (size == 2) wrong += __popc(__vcmpne2(differ.word[i], 0)) / 16;
    if (size == 4) wrong += any(differ.word[i]);
  }
  return wrong;
}

template <int size>
__device__ __forceinline__ void compare(Found& found, const Words& got, const Words& expected,
                                        std::uint64_t group) {
  const Words differ{{got.word[0] ^ expected.word[0], got.word[1] ^ expected.word[1],
                      got.word[2] ^ expected.word[2], got.word[3] ^ expected.word[3]}};
  if ((differ.word[0] | differ.word[1] | differ.word[2] | differ.word[3]) == 0) return;
  if (found.first_group == none) found.first_group = group;
  found.wrong += count_wrong<size>(differ);
}

template <int size, bool single>
__device__ __forceinline__ Found verify_groups(const VerifyArguments& a, const Groups& groups, Place at) {
  Found found{0, none};
  const Range range = range_of(a.first, a.count, size);
  const unsigned char* origin = static_cast<const unsigned char*>(a.data) - a.first * size;
  const auto edge = [&](std::uint64_t group) {
    const Words expected = group_at<size, single>(groups, group);
    compare<size>(found, load_part<size>(origin + group * group_bytes, part_of<size>(range, group), expected),
                  expected, group);
  };
  if (address_of(origin) % group_bytes != 0) {
    for (std::uint64_t g = range.first_group + at.thread; g < range.last_group; g += at.threads) edge(g);
    return found;
  }
  const auto* whole = reinterpret_cast<const uint4*>(origin);
  if (at.thread == 0 && range.first_group < range.full_begin) edge(range.first_group);
  const auto check = [&](uint4 got, std::uint64_t g) {
    compare<size>(found, Words{{got.x, got.y, got.z, got.w}}, group_at<size, single>(groups, g), g);
  };
  std::uint64_t g = range.full_begin + at.thread;
  for (; g + (batch - 1) * at.threads < range.full_end; g += batch * at.threads) {
    uint4 got[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) got[k] = load_streaming(whole + g + k * at.threads);
#pragma unroll
    for (int k = 0; k < batch; ++k) check(got[k], g + k * at.threads);
  }
  for (; g < range.full_end; g += at.threads) check(load_streaming(whole + g), g);
  const bool own_tail = range.last_group > range.full_end && range.last_group - 1 >= range.full_begin;
  if (at.thread == 0 && own_tail) edge(range.last_group - 1);
  return found;
}

}  // namespace nccl_check::kernels
