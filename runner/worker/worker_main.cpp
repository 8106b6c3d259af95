#include "worker/worker_main.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "engine/json.hpp"
#include "worker/protocol.hpp"

namespace nccl_check::worker {
namespace {

using nlohmann::json;
constexpr auto beat_every = Milliseconds(50);

void say(const json& message) {
  const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::write(socket_fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(0);  // the gate is gone, nobody wants the figures
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void beat() {
  static Clock::time_point last;
  const auto now = Clock::now();
  if (now - last < beat_every) return;
  last = now;
  say({{"beat", 1}});
}

// Nanoseconds for which this thread was runnable and waited for a CPU
// (Documentation/scheduler/sched-stats.rst: the second field). 0 where the kernel does not count it.
std::int64_t waited_for_cpu() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  file >> ran >> waited;
  return file ? waited : 0;
}

template <class Measure>
auto measured_with_load(const Measure& measure) {
  const auto began = Clock::now();
  const auto waited = waited_for_cpu();
  auto samples = measure();
  const auto took = Nanoseconds(Clock::now() - began).count();
  if (samples && took > 0)
    samples->starved =
        std::clamp(static_cast<double>(waited_for_cpu() - waited) / static_cast<double>(took), 0.0, 1.0);
  return samples;
}

template <class T>
void answer(const char* key, engine::Measured<T>& measured) {
  if (!measured) {
    say({{"failed", measured.failure()}});
  } else if constexpr (std::is_same_v<T, Unit>) {
    say({{key, 1}});
  } else {
    say({{key, *measured}});
  }
}

std::string stage_of(const json& command) {
  const auto task = command.find("task");
  return task == command.end() ? command.at("do").get<std::string>()
                               : task->at("operation").get<std::string>();
}

void obey(engine::Engine& engine, const json& command) {
  const auto what = command.at("do").get<std::string>();
  const auto deadline = Deadline::in(Milliseconds(command.at("ms").get<std::int64_t>()));
  say({{"stage", what}});
  ::prctl(PR_SET_NAME, ("nccl:" + stage_of(command)).c_str());  // for whoever looks at a node that hangs
  if (what == "open") {
    auto opened = engine.open(command.at("settings").get<engine::Settings>(), deadline);
    answer("opened", opened);
  } else if (what == "connect") {
    auto connected = engine.connect(command.at("place").get<engine::Place>(), deadline);
    answer("connected", connected);
  } else if (what == "measure") {
    const auto task = command.at("task").get<engine::Task>();
    auto samples = measured_with_load([&] { return engine.measure(task, deadline); });
    answer("samples", samples);
  } else if (what == "alone") {
    const auto task = command.at("task").get<engine::Task>();
    auto samples = measured_with_load([&] { return engine.measure_alone(task, deadline); });
    answer("samples", samples);
  } else {
    throw std::invalid_argument("unknown command");
  }
}

}  // namespace

int worker_main() {
  ::signal(SIGPIPE, SIG_IGN);
  auto engine = engine::make_fabric_engine(beat);
  LineReader lines;
  std::array<char, 65'536> buffer{};
  for (;;) {
    while (auto line = lines.next()) {
      try {
        obey(*engine, json::parse(*line));
      } catch (const std::exception& e) {
        say({{"failed", engine::Failure{verdict::Class::untested, {e.what(), "the worker", ""}}}});
      }
    }
    const ssize_t n = ::read(socket_fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    // Without destructors: whatever the engine holds, the process's end frees, and sooner.
    if (n <= 0 || !lines.add({buffer.data(), static_cast<std::size_t>(n)})) ::_exit(0);
  }
}

}  // namespace nccl_check::worker
