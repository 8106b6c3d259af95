#include "tests/doubles/cuda/launch.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "tests/doubles/cuda/copy.hpp"
#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/rates.hpp"

namespace nccl_check::doubles {
namespace {

template <class Arguments>
Arguments read(const Launch& launch) {
  Arguments arguments;
  std::memcpy(&arguments, launch.arguments.data(), sizeof arguments);
  return arguments;
}

// Streams that one flag lets go start at the same time: the latest that any had reached by then.
double common_start(const volatile std::uint32_t* flag, std::uint32_t value, double now) {
  static auto& mutex = *new std::mutex;
  static auto& starts = *new std::map<std::pair<const volatile void*, std::uint32_t>, double>;
  const std::lock_guard lock(mutex);
  double& start = starts[{flag, value}];
  if (start < now) start = std::max(now, latest_time());
  return start;
}

// Sleeps rather than spins: there may be more streams than processors.
void wait_at_latch(const kernels::LatchArguments& latch, double& now) {
  const auto begin = std::chrono::steady_clock::now();
  const auto* flag = const_cast<const std::uint32_t*>(latch.flag);
  while (static_cast<std::int32_t>(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - latch.value) < 0) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::nanoseconds(latch.most_ns)) {
      now += static_cast<double>(latch.most_ns);
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  now = common_start(latch.flag, latch.value, now);
}

bool reachable(const Context& context, const Block& block) {
  if (block.place != Place::device) return true;
  return block.gpu == context.gpu || context.peers[static_cast<std::size_t>(block.gpu)];
}

struct Traffic {
  double slowest = 0;  // nanoseconds of whichever way takes longest
  bool fault = false;  // an address that this GPU can't reach
};

// Local memory carries all local operands; every link carries its own.
Traffic traffic(const kernels::StreamArguments& stream, bool three, const Context& context) {
  Traffic found;
  double local = 0;
  std::vector<const void*> operands{stream.to, stream.from};
  if (three) operands.push_back(stream.other);
  for (const void* operand : operands) {
    const auto block = block_of(operand, stream.bytes);
    if (!block || block->place == Place::pageable || !reachable(context, *block)) return {0, true};
    const auto bytes = static_cast<double>(stream.bytes);
    if (block->place == Place::device && block->gpu == context.gpu) {
      local += bytes;
    } else {
      found.slowest = std::max(found.slowest, bytes / rate_to(context.gpu, *block));
    }
  }
  if (local > 0) found.slowest = std::max(found.slowest, local / memory_rate(context.gpu));
  return found;
}

// What the kernel wrote, where that can be told.
std::optional<std::pair<void*, std::size_t>> written(const Launch& launch) {
  if (launch.kernel->name == "nccl_check_fill") {
    const auto fill = read<kernels::FillArguments>(launch);
    return std::pair(fill.data, static_cast<std::size_t>(fill.count) * kernels::size_of(fill.type));
  }
  if (launch.kernel->name == "nccl_check_copy" || launch.kernel->name == "nccl_check_triad") {
    const auto stream = read<kernels::StreamArguments>(launch);
    return std::pair(stream.to, static_cast<std::size_t>(stream.bytes));
  }
  return std::nullopt;
}

void compute(const Launch& launch, Context& context, Stream& stream, double& now) {
  const bool triad = launch.kernel->name == "nccl_check_triad";
  Traffic time{
      static_cast<double>(launch.kernel->bytes_moved(launch.arguments.data())) / memory_rate(context.gpu),
      false};
  if (triad || launch.kernel->name == "nccl_check_copy") {
    time = traffic(read<kernels::StreamArguments>(launch), triad, context);
  }
  if (time.fault) {
    context.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
    return;
  }
  const std::lock_guard lock(context.kernels);
  launch.kernel->run(launch.arguments.data());
  if (strikes(Kind::corrupt, Stage::memory, {.gpu = context.gpu}) != nullptr) {
    if (const auto what = written(launch)) flip_a_bit(what->first, what->second);
  }
  now += lasting(time.slowest, 1, stream.next_key());
}

}  // namespace

void run(const Launch& launch, Context& context, Stream& stream, double& now) {
  if (launch.kernel->name == "nccl_check_latch") {
    wait_at_latch(read<kernels::LatchArguments>(launch), now);
    return;
  }
  crash(Stage::kernel, {.gpu = context.gpu});
  if (strikes(Kind::hang, Stage::kernel, {.gpu = context.gpu}) != nullptr) block_for_good();
  if (const Fault* fault = strikes(Kind::cuda_error, Stage::kernel, {.gpu = context.gpu})) {
    context.broken = static_cast<CUresult>(fault->code);
  }
  if (context.broken.load() == CUDA_SUCCESS) compute(launch, context, stream, now);
}

}  // namespace nccl_check::doubles
