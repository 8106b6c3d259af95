// GB/s at 1 GiB by events, the median of 5, for several grids.
#include <algorithm>
#include <array>
#include <cstdio>

#include "driver.hpp"
#include "kernels/kernels.hpp"

namespace nccl_check::kernels {
namespace {

constexpr std::size_t gib = 1U << 30U;

template <class Time>
double median_rate(double bytes, Time time) {
  std::array<float, 5> times{};
  time();
  for (float& one : times) one = time();
  std::sort(times.begin(), times.end());
  return bytes / (static_cast<double>(times[2]) * 1e6);
}

template <class Arguments>
double rate(Driver& driver, const char* kernel, Arguments arguments, unsigned grid, unsigned block) {
  return median_rate(static_cast<double>(find_kernel(kernel)->bytes_moved(&arguments)),
                     [&] { return driver.time(kernel, arguments, grid, block); });
}

struct Buffers {
  Memory to, from, other, found;
};

void print_row(Driver& driver, const Buffers& buffers, unsigned blocks, unsigned threads) {
  const unsigned grid = blocks * driver.multiprocessors();
  const StreamArguments stream{buffers.to.pointer(), buffers.from.pointer(), buffers.other.pointer(), gib};
  std::printf("%3u x %4u  copy %5.0f  triad %5.0f ", blocks, threads,
              rate(driver, "nccl_check_copy", stream, grid, threads),
              rate(driver, "nccl_check_triad", stream, grid, threads));
  for (const auto& [name, type] : {std::pair{"int8", Type::int8},
                                   {"bf16", Type::bfloat16},
                                   {"f32", Type::float32},
                                   {"f64", Type::float64}}) {
    const std::uint64_t count = gib / size_of(type);
    for (const std::uint32_t ranks : {1U, 8U}) {
      const std::uint32_t rank = ranks == 1 ? 0 : all_ranks;
      const double fill_rate = rate(
          driver, "nccl_check_fill",
          FillArguments{buffers.to.pointer(), count, 0, 1, type, Reduction::sum, 0, ranks}, grid, threads);
      // Filled as a result, so that verify finds nothing wrong.
      driver.launch("nccl_check_fill",
                    FillArguments{buffers.to.pointer(), count, 0, 1, type, Reduction::sum, rank, ranks}, grid,
                    threads);
      const double verify_rate = rate(driver, "nccl_check_verify",
                                      VerifyArguments{buffers.to.pointer(), count, 0, 1, type, Reduction::sum,
                                                      rank, ranks, buffers.found.pointer<Mismatches>()},
                                      grid, threads);
      std::printf(" | %s/%u fill %5.0f verify %5.0f", name, ranks, fill_rate, verify_rate);
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

void print_rates(Driver& driver) {
  const Buffers buffers{{driver, gib}, {driver, gib}, {driver, gib}, {driver, sizeof(Mismatches)}};
  // No constants: memory is faster with them than with a job's data.
  for (const auto* buffer : {&buffers.from, &buffers.other})
    driver.launch(
        "nccl_check_fill",
        FillArguments{buffer->pointer(), gib / 4, 0, buffer->at(), Type::uint32, Reduction::sum, 0, 1}, 2112,
        256);
  driver.set(buffers.found.at(), 0, sizeof(Mismatches));
  std::printf("GB/s at 1 GiB: the driver's own copy %5.0f\n", median_rate(2.0 * gib, [&] {
                return driver.time_copy(buffers.to.at(), buffers.from.at(), gib);
              }));
  constexpr unsigned threads_a_block = 256;
  const StreamArguments whole{buffers.to.pointer(), buffers.from.pointer(), buffers.other.pointer(), gib};
  std::printf("GB/s at 1 GiB: a thread for every access: copy %5.0f  triad %5.0f\n",
              rate(driver, "nccl_check_copy", whole, gib / 16 / threads_a_block, threads_a_block),
              rate(driver, "nccl_check_triad", whole, gib / 16 / threads_a_block, threads_a_block));
  std::printf("GB/s at 1 GiB: blocks a multiprocessor x threads; type/ranks\n");
  for (const unsigned threads : {256U, 512U, 1024U}) {
    for (const unsigned all : {1024U, 2048U, 4096U, 8192U, 16384U})
      print_row(driver, buffers, all / threads, threads);
  }
  Mismatches found{};
  driver.get(&found, buffers.found.at(), sizeof found);
  if (found.wrong != 0)
    std::printf("FAILED: verify found %llu wrong\n", static_cast<unsigned long long>(found.wrong));
}

}  // namespace nccl_check::kernels
