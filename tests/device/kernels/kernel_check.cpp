// Compares the kernels on a real GPU with their host functions, and prints how fast they are.
//   nccl_check_kernel_check [--small]           --small: without the rates at 1 GiB, for compute-sanitizer
//   nccl_check_kernel_check --load SECONDS      only keeps the GPU's memory busy (CUDA_VISIBLE_DEVICES: which
//   GPU)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.hpp"
#include "kernels/image.hpp"
#include "kernels/kernels.hpp"

namespace nccl_check::kernels {

void Tally::check(bool right, const std::string& what) {
  ++checks_;
  if (right) return;
  if (++failures_ <= 20) std::printf("FAILED: %s\n", what.c_str());
}

void Tally::line(const std::string& group) {
  std::printf("%-28s %6llu checks, %llu failures\n", group.c_str(),
              static_cast<unsigned long long>(checks_ - seen_),
              static_cast<unsigned long long>(failures_ - seen_failures_));
  std::fflush(stdout);
  seen_ = checks_;
  seen_failures_ = failures_;
}

int Tally::finish() const {
  std::printf("%llu checks, %llu failures\n", static_cast<unsigned long long>(checks_),
              static_cast<unsigned long long>(failures_));
  return failures_ == 0 && checks_ > 0 ? 0 : 1;
}

namespace {

int keep_busy(int seconds) {
  constexpr std::uint64_t bytes = 1U << 30U;
  constexpr unsigned threads = 256;
  Driver driver;
  const Memory to(driver, bytes);
  const Memory from(driver, bytes);
  std::printf("%s is kept busy for %d s\n", driver.device_name().c_str(), seconds);
  std::fflush(stdout);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 100; ++i)
      driver.launch("nccl_check_copy", StreamArguments{to.pointer(), from.pointer(), nullptr, bytes},
                    64 * driver.multiprocessors(), threads);
    driver.wait();
  }
  return 0;
}

}  // namespace
}  // namespace nccl_check::kernels

int main(int count, char** arguments) {
  using namespace nccl_check::kernels;
  if (count == 3 && std::strcmp(arguments[1], "--load") == 0) return keep_busy(std::atoi(arguments[2]));
  const bool small = count == 2 && std::strcmp(arguments[1], "--small") == 0;
  if (count > 1 && !small) {
    std::fprintf(stderr, "usage: nccl_check_kernel_check [--small | --load SECONDS]\n");
    return 2;
  }
  Driver driver;
  std::printf("%s, %u multiprocessors, kernels for %s\n", driver.device_name().c_str(),
              driver.multiprocessors(), std::string(architectures()).c_str());
  Tally tally;
  check_data(driver, tally);
  check_streams(driver, tally);
  check_latch(driver, tally);
  const int result = tally.finish();
  if (!small) print_rates(driver);
  return result;
}
