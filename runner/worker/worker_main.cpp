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

void note_load(engine::Samples& samples, double starved) {
  samples.starved = starved;
}
void note_load(std::vector<engine::Figure>& figures, double starved) {
  for (auto& figure : figures) figure.samples.starved = starved;
}

template <class Measure>
auto measured_with_load(const Measure& measure) {
  const auto began = Clock::now();
  const auto waited = waited_for_cpu();
  auto measured = measure();
  const auto took = Nanoseconds(Clock::now() - began).count();
  if (measured && took > 0)
    note_load(
        *measured,
        std::clamp(static_cast<double>(waited_for_cpu() - waited) / static_cast<double>(took), 0.0, 1.0));
  return measured;
}

template <class T>
void answer(const char* key, engine::Measured<T>& measured) {
  if (!measured) {
    say({{"failed", measured.failure()}});
  } else {
    say({{key, *measured}});
  }
}

std::string stage_of(const json& command) {
  const auto task = command.find("task");
  return task == command.end() ? command.at("do").get<std::string>()
                               : task->at("operation").get<std::string>();
}

// The engine that the first command, `open`, names.
engine::Engine& opened_by(std::unique_ptr<engine::Engine>& engine, const engine::Settings& settings) {
  if (!engine) engine = engine::make_engine(settings.engine, beat);
  if (!engine) throw std::invalid_argument("no engine is called " + printable(settings.engine, 40));
  return *engine;
}

void obey(std::unique_ptr<engine::Engine>& engine, const json& command) {
  const auto what = command.at("do").get<std::string>();
  const auto deadline = Deadline::in(Milliseconds(command.at("ms").get<std::int64_t>()));
  say({{"stage", what}});
  ::prctl(PR_SET_NAME, ("nccl:" + stage_of(command)).c_str());  // for whoever looks at a node that hangs
  if (what == "open") {
    const auto settings = command.at("settings").get<engine::Settings>();
    auto opened = opened_by(engine, settings).open(settings, deadline);
    answer("opened", opened);
  } else if (!engine) {
    throw std::invalid_argument("the first command is not open");
  } else if (what == "connect") {
    auto connected = engine->connect(command.at("place").get<engine::Place>(), deadline);
    answer("connected", connected);
  } else if (what == "measure") {
    const auto task = command.at("task").get<engine::Task>();
    auto samples = measured_with_load([&] { return engine->measure(task, deadline); });
    answer("samples", samples);
  } else if (what == "alone") {
    const auto task = command.at("task").get<engine::Task>();
    auto figures = measured_with_load([&] { return engine->measure_alone(task, deadline); });
    answer("figures", figures);
  } else {
    throw std::invalid_argument("unknown command");
  }
}

}  // namespace

int worker_main() {
  ::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<engine::Engine> engine;
  LineReader lines;
  std::array<char, 65'536> buffer{};
  for (;;) {
    while (auto line = lines.next()) {
      try {
        obey(engine, json::parse(*line));
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
