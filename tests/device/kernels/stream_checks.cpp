// Copy and triad between odd addresses, with canaries around; the latch's three ways to end.
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "driver.hpp"
#include "kernels/kernels.hpp"

namespace nccl_check::kernels {
namespace {

constexpr std::size_t margin = 64;
using Bytes = std::vector<unsigned char>;

struct Layout {
  std::size_t to, from, other;  // offsets of the addresses
};

void check_stream(Driver& driver, Tally& tally, const char* kernel, std::size_t bytes, Layout layout,
                  unsigned grid) {
  const std::size_t whole = bytes + 2 * margin + 16;
  Bytes from(whole);
  Bytes other(whole);
  const FillArguments random{from.data(), whole / 8 - 2, 0, 3, Type::float64, Reduction::sum, 1, 1};
  fill(random);
  Bytes right(whole, 0xc3);
  // Doubles at the odd address itself.
  std::memmove(from.data() + layout.from, from.data(), whole - 16);
  fill({other.data(), whole / 8 - 2, 0, 4, Type::float64, Reduction::sum, 1, 1});
  std::memmove(other.data() + layout.other, other.data(), whole - 16);

  const Memory device_to(driver, whole);
  const Memory device_from(driver, whole);
  const Memory device_other(driver, whole);
  driver.put(device_to.at(), right.data(), whole);
  driver.put(device_from.at(), from.data(), whole);
  driver.put(device_other.at(), other.data(), whole);
  driver.launch(
      kernel,
      StreamArguments{device_to.pointer(margin + layout.to), device_from.pointer(margin + layout.from),
                      device_other.pointer(margin + layout.other), bytes},
      grid, 256);
  Bytes got(whole);
  driver.get(got.data(), device_to.at(), whole);
  const StreamArguments host{right.data() + margin + layout.to, from.data() + margin + layout.from,
                             other.data() + margin + layout.other, bytes};
  find_kernel(kernel)->run(&host);
  tally.check(got == right, std::string(kernel) + " of " + std::to_string(bytes) + " bytes to address + " +
                                std::to_string(layout.to) + " from + " + std::to_string(layout.from) +
                                " and + " + std::to_string(layout.other));
}

double seconds(Driver& driver, LatchArguments arguments) {
  const auto start = std::chrono::steady_clock::now();
  driver.launch("nccl_check_latch", arguments, 1, 1);
  driver.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void check_streams(Driver& driver, Tally& tally) {
  for (const char* kernel : {"nccl_check_copy", "nccl_check_triad"}) {
    for (const std::size_t bytes : {0U, 1U, 8U, 15U, 16U, 100U, 4096U, 100003U, 1048576U}) {
      for (const Layout layout : std::vector<Layout>{{0, 0, 0},
                                                     {8, 8, 8},
                                                     {0, 8, 0},
                                                     {4, 0, 8},
                                                     {1, 1, 1},
                                                     {3, 5, 2},
                                                     {2, 4, 6},
                                                     {15, 0, 7},
                                                     {0, 0, 8}}) {
        check_stream(driver, tally, kernel, bytes, layout, 1);
        check_stream(driver, tally, kernel, bytes, layout, driver.multiprocessors());
      }
    }
    tally.line(kernel);
  }
}

void check_latch(Driver& driver, Tally& tally) {
  std::uint32_t* flag = driver.host_flag();
  const auto* on_device = reinterpret_cast<const volatile std::uint32_t*>(driver.device_address(flag));
  *flag = 5;
  tally.check(seconds(driver, {on_device, 6, 0, 50'000'000}) >= 0.049, "latch: waits as long as it may");
  tally.check(seconds(driver, {on_device, 6, 0, 50'000'000}) < 1, "latch: never waits longer");
  tally.check(seconds(driver, {on_device, 5, 0, 5'000'000'000}) < 1, "latch: open at its value");
  tally.check(seconds(driver, {on_device, 4, 0, 5'000'000'000}) < 1, "latch: open past its value");
  std::thread opener([flag] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    *static_cast<volatile std::uint32_t*>(flag) = 6;
  });
  const double waited = seconds(driver, {on_device, 6, 0, 5'000'000'000});
  opener.join();
  tally.check(waited >= 0.02 && waited < 1, "latch: opens when the host says so");
  tally.line("latch");
}

}  // namespace nccl_check::kernels
