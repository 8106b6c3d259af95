#include "engine/fabric/memory_copy.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/units.hpp"
#include "engine/fabric/pattern.hpp"

namespace nccl_check::engine::fabric {
namespace {

using verdict::Class;

constexpr std::uint64_t line = 64;          // parts begin at cache lines
constexpr std::uint64_t piece = 1U << 20U;  // between looks at the deadline
constexpr std::size_t any_cpu = CPU_SETSIZE;

// Past the caches where the instruction set has stores that do that; both addresses at a cache line.
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const std::size_t whole = bytes / line * line;
  for (std::size_t at = 0; at < whole; at += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_load_si128(source);
    const __m128i b = _mm_load_si128(source + 1);
    const __m128i c = _mm_load_si128(source + 2);
    const __m128i d = _mm_load_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + whole, from + whole, bytes - whole);
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

std::vector<std::size_t> own_cpus() {
  std::vector<std::size_t> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  // More than CPU_SETSIZE (1024) CPUs: EINVAL, and one unbound thread is used.
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(any_cpu);
  return cpus;
}

void bind_to(std::size_t cpu) {
  if (cpu == any_cpu) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Unbound it measures too, only less evenly.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : base_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        bytes_(bytes) {
    if (base_ != MAP_FAILED) madvise(base_, bytes_, MADV_HUGEPAGE);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base_ != MAP_FAILED) munmap(base_, bytes_);
  }
  [[nodiscard]] bool ok() const { return base_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(base_); }

 private:
  void* base_;
  std::size_t bytes_;
};

// What the threads share. All of them pass the barrier before and after every iteration; whoever comes last
// notes the time.
struct Run {
  const Task& task;
  std::byte* from;
  std::byte* to;
  std::atomic<bool> stop = false;  // set at the deadline
  bool over = false;               // the same at a barrier, where all threads see it alike and end
  std::vector<Clock::time_point> marks{};
  std::vector<Wrong> wrong{};  // one a thread
  std::mutex mutex{};          // for what follows
  std::condition_variable changed{};
  std::size_t finished = 0;
};

struct Mark {
  Run* run;
  void operator()() noexcept {
    run->marks.push_back(Clock::now());  // room was reserved
    run->over = run->stop;
  }
};

void work(Run& run, std::barrier<Mark>& barrier, std::size_t number, std::size_t cpu, std::uint64_t begin,
          std::uint64_t end) {
  bind_to(cpu);
  const auto pieces = [&](auto&& each) {
    for (std::uint64_t at = begin; at < end && !run.stop.load(std::memory_order_relaxed); at += piece)
      each(at, std::min(piece, end - at));
  };
  pieces([&](std::uint64_t at, std::uint64_t bytes) {
    fill_words(reinterpret_cast<std::uint32_t*>(run.from + at), at / 4, bytes / 4, run.task.seed, 0);
    std::memset(run.to + at, 0xFF, bytes);
  });
  for (int i = 0; i < run.task.warmups + run.task.iterations; ++i) {
    barrier.arrive_and_wait();
    if (run.over) break;
    pieces([&](std::uint64_t at, std::uint64_t bytes) { stream(run.to + at, run.from + at, bytes); });
    barrier.arrive_and_wait();
  }
  Wrong wrong;
  if (run.task.verify)
    pieces([&](std::uint64_t at, std::uint64_t bytes) {
      wrong.add(check_words(reinterpret_cast<const std::uint32_t*>(run.to + at), at / 4, bytes / 4,
                            run.task.seed, 0));
    });
  const std::lock_guard lock(run.mutex);
  run.wrong[number] = std::move(wrong);
  ++run.finished;
  run.changed.notify_one();
}

}  // namespace

Measured<Samples> memory_copy(const Task& task, std::uint64_t most_bytes, const Heartbeat& heartbeat,
                              Deadline deadline) {
  const std::uint64_t half = task.bytes / 2 / line * line;
  if (half > most_bytes)
    return Failure{Class::untested,
                   Error{fmt::format("a memory copy of {} needs buffers of {}, {} are allowed",
                                     format_size(task.bytes), format_size(half), format_size(most_bytes)),
                         "", "measure a smaller size"}};
  Samples samples;
  samples.bytes = 2 * half;
  const Mapping memory(std::max(2 * half, line));
  if (!memory.ok())
    return Failure{Class::untested, Error{fmt::format("{} of memory could not be had: {}",
                                                      format_size(2 * half), std::strerror(errno)),
                                          "", "measure a smaller size"}};

  const auto cpus = own_cpus();
  Run run{task, memory.data(), memory.data() + half};
  run.marks.reserve(2 * static_cast<std::size_t>(task.warmups + task.iterations));
  std::barrier<Mark> barrier(static_cast<std::ptrdiff_t>(cpus.size()), Mark{&run});
  std::vector<std::thread> threads;
  threads.reserve(cpus.size());
  const std::uint64_t lines = half / line;
  run.wrong.resize(cpus.size());
  std::string cannot_start;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    try {
      threads.emplace_back(work, std::ref(run), std::ref(barrier), i, cpus[i], lines * i / cpus.size() * line,
                           lines * (i + 1) / cpus.size() * line);
    } catch (const std::system_error& error) {
      cannot_start = error.what();
      run.stop = true;
      for (std::size_t missing = i; missing < cpus.size(); ++missing) barrier.arrive_and_drop();
      break;
    }
  }
  bool in_time = true;
  {
    std::unique_lock lock(run.mutex);
    const auto done = [&] { return run.finished == threads.size(); };
    while (!run.changed.wait_for(lock, Milliseconds(50), done)) {
      if (heartbeat) heartbeat();
      if (deadline.passed()) {
        in_time = false;
        run.stop = true;
      }
    }
  }
  for (auto& thread : threads) thread.join();
  if (!cannot_start.empty())
    return Failure{Class::untested,
                   Error{fmt::format("memory copy: only {} of {} threads could be started: {}",
                                     threads.size(), cpus.size(), cannot_start),
                         "", "raise the limit of processes"}};
  if (!in_time)
    return Failure{Class::untested,
                   Error{fmt::format("memory copy: the deadline passed while copying {} {} times",
                                     format_size(half), task.warmups + task.iterations),
                         "", "measure a smaller size or give it more time"}};
  for (std::size_t i = static_cast<std::size_t>(task.warmups); 2 * i < run.marks.size(); ++i)
    samples.times.push_back(run.marks[2 * i + 1] - run.marks[2 * i]);
  Wrong wrong;
  for (const auto& part : run.wrong) wrong.add(part);
  samples.wrong = wrong.count;
  samples.first_wrong = wrong.first;
  return samples;
}

}  // namespace nccl_check::engine::fabric
