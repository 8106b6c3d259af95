#pragma once
// The data that is sent, and what must have become of it. Every element follows from the task's seed, its
// position and the rank that it is from, so that each rank can check the whole result by itself.
#include <cstdint>
#include <string>

namespace nccl_check::engine::fabric {

// all_reduce: floats from 0 to 1020, so that sums over this many ranks stay below 2^24, where floats are
// exact.
constexpr int most_ranks = 16'384;

struct Wrong {
  std::uint64_t count = 0;
  std::string first;  // "element 17: got 3, expected 5"
  void add(const Wrong& other);
};

// Elements [first, first + count) of the input of `rank`.
void fill_floats(float* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed, int rank);
// The same elements of the sum over ranks 0 .. ranks-1. `ranks` is at most most_ranks.
Wrong check_sums(const float* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed, int ranks);

// all_gather, send/recv and memory copy: 32-bit words with every bit in use.
void fill_words(std::uint32_t* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed, int rank);
// `offset` is added to the position in Wrong::first: where the data stands in a larger buffer.
Wrong check_words(const std::uint32_t* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed,
                  int rank, std::uint64_t offset = 0);

// A 64-bit mix of the seed with something else, for whatever must differ between tasks.
std::uint64_t mix(std::uint64_t seed, std::uint64_t with);

}  // namespace nccl_check::engine::fabric
