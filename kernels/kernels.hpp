#pragma once
// The CUDA kernels' arguments, and the host functions that mean the same. Every kernel takes one structure by
// value, so that whoever launches it, the kernel itself and the host function share one declaration. All work
// for any count and alignment, with any grid and block of one dimension. Measured on an H200: blocks of 256
// threads, 16 a multiprocessor for fill and verify, 64 for copy and triad.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nccl_check::kernels {

// Numbered as ncclDataType_t.
enum class Type : std::uint32_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};
constexpr std::uint32_t type_count = 12;
std::size_t size_of(Type type);  // bytes an element

// Numbered as ncclRedOp_t; premul_sum: every rank's data is first multiplied by premul_factor.
enum class Reduction : std::uint32_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };
constexpr std::uint32_t reduction_count = 6;
constexpr int premul_factor = 2;

// nccl_check_fill: `count` elements, of which the first stands at position `first` of the rank's data. What
// stands at a position follows from type, reduction, ranks, seed and rank alone, and is such that reducing
// all ranks' data is exact in every order (pattern.hpp says how). With several ranks most positions of a
// rank's data hold the reduction's neutral element, so that checking costs the same for any number of ranks;
// data that is copied and not reduced (all_gather, broadcast, send/recv, copies) wants ranks = 1 and in
// `rank` whose data it is: then every bit is hashed, and a swapped or shifted piece is noticed at once.
struct FillArguments {
  void* data;
  std::uint64_t count;
  std::uint64_t first;
  std::uint64_t seed;
  Type type;
  Reduction reduction;
  std::uint32_t rank;
  std::uint32_t ranks;
};

// What verify found. Zero it before; several launches may share one.
struct Mismatches {
  std::uint64_t wrong;        // elements
  std::uint64_t first_wrong;  // position of one of them, the lowest seen, plus 1; 0: none
  std::uint64_t got;          // its bits
  std::uint64_t expected;
};

constexpr std::uint32_t all_ranks = 0xffffffffU;

// nccl_check_verify: whether `data` holds what `rank` filled in at these positions, or, where rank is
// all_ranks, what reducing all ranks' data gives (with ranks = 1: rank 0's alone). Exact to the bit, averages
// too.
struct VerifyArguments {
  const void* data;
  std::uint64_t count;
  std::uint64_t first;
  std::uint64_t seed;
  Type type;
  Reduction reduction;
  std::uint32_t rank;
  std::uint32_t ranks;
  Mismatches* found;
};

// nccl_check_copy: to = from. nccl_check_triad (doubles): to = from + 3 * other. For device memory and, with
// a peer's or the host's address on either side, for links. `bytes`: of one of the buffers; triad leaves what
// is no whole double at the end alone. The buffers don't overlap.
struct StreamArguments {
  void* to;
  const void* from;
  const void* other;
  std::uint64_t bytes;
};

// nccl_check_latch: waits until *flag (in pinned host memory) is `value` or later, and never longer than
// `most_ns`, so that streams behind it start together. One thread.
struct LatchArguments {
  const volatile std::uint32_t* flag;
  std::uint32_t value;
  std::uint32_t unused;
  std::uint64_t most_ns;
};

// nccl_check_flip: inverts the lowest bit of the byte at `offset`: wrong data, for tests.
struct FlipArguments {
  void* data;
  std::uint64_t offset;
};

// The host functions. `run` reads the kernel's argument structure of `argument_bytes` bytes.
struct Kernel {
  std::string_view name;
  std::size_t argument_bytes;
  void (*run)(const void* arguments);
  std::uint64_t (*bytes_moved)(const void* arguments);  // bytes read plus bytes written
};
const Kernel* find_kernel(std::string_view name);  // nullptr: there is none of that name

void fill(const FillArguments& arguments);
void verify(const VerifyArguments& arguments);
void copy(const StreamArguments& arguments);
void triad(const StreamArguments& arguments);
void latch(const LatchArguments& arguments);
void flip(const FlipArguments& arguments);

// A position's value as people read it: "1.5", "-3", "nan".
double value_of(Type type, std::uint64_t bits);

}  // namespace nccl_check::kernels
