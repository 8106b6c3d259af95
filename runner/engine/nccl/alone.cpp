#include "engine/nccl/alone.hpp"

#include <algorithm>

namespace nccl_check::engine::nccl {
namespace {

constexpr std::uint64_t page = 4096;
constexpr int copies = 3;

std::uint64_t half_of(const Device& device) {
  return device.capacity() / 2 / page * page;
}

Pattern pattern_of(std::uint32_t rank, std::uint64_t seed) {
  return {kernels::Type::uint32, rank, 2, seed};
}

std::uint64_t other_seed(std::uint64_t seed) {
  return ~seed;  // what lies there before must not pass for what should come
}

void take_wrong(Device& device, Samples& out) {
  const auto wrong = device.wrong(kernels::Type::uint32);
  out.wrong += wrong.count;
  if (out.first_wrong.empty()) out.first_wrong = wrong.first;
}

void verify(Device& device, std::uint64_t offset, std::uint64_t bytes, const Pattern& pattern) {
  device.begin_verify();
  device.verify(offset, bytes, pattern);
  device.end_verify();
}

// Events 0, 1, ... stand between the rounds of an operation; the first rounds are warm-up.
std::vector<Nanoseconds> times_of(Device& device, const Effort& effort) {
  std::vector<Nanoseconds> out;
  for (int i = effort.warmups; i < effort.warmups + effort.iterations; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out.push_back(device.elapsed(at, at + 1));
  }
  return out;
}

template <class Operation>
void repeat(Device& device, const Effort& effort, Operation operation) {
  for (int i = 0; i < effort.warmups + effort.iterations; ++i) {
    device.record(static_cast<std::size_t>(i));
    operation();
  }
  device.record(static_cast<std::size_t>(effort.warmups + effort.iterations));
}

}  // namespace

Trouble measure_memory(Device& device, const Effort& effort, const Patience& patience, Samples& out) {
  device.use();
  const auto half = half_of(device);
  device.fill(0, half, pattern_of(0, effort.seed));
  device.fill(half, half, pattern_of(0, other_seed(effort.seed)));
  // Several a round, so that starting and ending one is little of it.
  repeat(device, effort, [&] {
    for (int i = 0; i < copies; ++i) device.copy_by_kernel(half, 0, half);
  });
  if (effort.flip) device.flip(half + half / 2);
  if (effort.verify) verify(device, half, half, pattern_of(0, effort.seed));
  device.finish(patience, "copying in the GPU's memory");
  if (device.trouble()) return device.trouble();
  out.times = times_of(device, effort);
  out.bytes = 2 * half * copies;
  if (effort.verify) take_wrong(device, out);
  return device.trouble();
}

Trouble measure_peers(Device& a, Device& b, const Effort& effort, const Patience& patience, Samples& out) {
  const auto half = std::min(half_of(a), half_of(b));
  const int rounds = effort.warmups + effort.iterations;
  const auto both = [&](auto&& action) {
    a.use();
    action(a, b, std::uint32_t{0});
    b.use();
    action(b, a, std::uint32_t{1});
  };
  // Events 2i and 2i + 1 of a device are its copy's begin and end. Neither begins before both have ended.
  const auto event = [](int round, std::size_t end) { return static_cast<std::size_t>(round) * 2 + end; };
  both([&](Device& self, Device&, std::uint32_t rank) {
    self.fill(0, half, pattern_of(rank, effort.seed));
    self.fill(half, half, pattern_of(rank, other_seed(effort.seed)));
    self.record(event(rounds, 0));
  });
  both([&](Device& self, Device& peer, std::uint32_t) {
    self.wait_for(peer, event(rounds, 0));
    self.hold();
  });
  for (int round = 0; round < rounds; ++round) {
    both([&](Device& self, Device& peer, std::uint32_t) {
      if (round > 0) self.wait_for(peer, event(round - 1, 1));
      self.record(event(round, 0));
      self.copy_to_peer(peer, half, 0, half);
      self.record(event(round, 1));
    });
    // Enough is queued: the host is faster than the copies from here on.
    if (round == 1 || rounds == 1) both([](Device& self, Device&, std::uint32_t) { self.release(); });
  }
  both([&](Device& self, Device& peer, std::uint32_t rank) {
    self.wait_for(peer, event(rounds - 1, 1));
    if (effort.flip && rank == 0) self.flip(half + half / 2);
    if (effort.verify) verify(self, half, half, pattern_of(1 - rank, effort.seed));
  });
  const std::string doing = "copying to and from " + b.where();
  both([&](Device& self, Device&, std::uint32_t) { self.finish(patience, doing); });
  if (a.trouble()) return a.trouble();
  if (b.trouble()) return b.trouble();
  for (int round = effort.warmups; round < rounds; ++round) {
    Nanoseconds slower{0};
    both([&](Device& self, Device&, std::uint32_t) {
      slower = std::max(slower, self.elapsed(event(round, 0), event(round, 1)));
    });
    out.times.push_back(slower);
  }
  out.bytes = half;
  if (effort.verify) both([&](Device& self, Device&, std::uint32_t) { take_wrong(self, out); });
  return a.trouble() ? a.trouble() : b.trouble();
}

Trouble measure_host(Device& device, std::uint64_t bytes, const HostEfforts& efforts,
                     const Patience& patience, Samples& to, Samples& from) {
  device.use();
  const auto half = half_of(device);
  const auto& effort = efforts.from;
  bytes = std::min(bytes, half);
  const auto take = [&](const std::string& doing, Samples& out) {
    device.finish(patience, doing);
    if (device.trouble()) return;
    out.times = times_of(device, effort);
    out.bytes = bytes;
    if (effort.verify) take_wrong(device, out);
  };
  // The pinned memory's old contents must not pass for what should come either.
  device.fill(half, bytes, pattern_of(0, other_seed(effort.seed)));
  device.copy_to_host(half, bytes);
  device.fill(0, bytes, pattern_of(0, effort.seed));
  repeat(device, effort, [&] { device.copy_to_host(0, bytes); });
  if (efforts.from.flip) device.flip_pinned(bytes / 2);
  if (effort.verify) {
    device.begin_verify();
    device.verify_pinned(bytes, pattern_of(0, effort.seed));
    device.end_verify();
  }
  take("copying to the host", from);
  if (efforts.from.flip) device.flip_pinned(bytes / 2);  // and back
  repeat(device, effort, [&] { device.copy_from_host(half, bytes); });
  if (efforts.to.flip) device.flip(half + bytes / 2);
  if (effort.verify) verify(device, half, bytes, pattern_of(0, effort.seed));
  take("copying from the host", to);
  return device.trouble();
}

}  // namespace nccl_check::engine::nccl
