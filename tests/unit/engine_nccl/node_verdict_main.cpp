// Opens the engine on this node's GPUs, or on those named, measures what it can alone, and prints each
// figure. With --repeat every round is a process of its own, as the gate's workers are. Exit codes: as
// nccl-check's.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "engine/engine.hpp"
#include "verdict/verdict.hpp"

namespace {

using namespace nccl_check;  // NOLINT

struct Arguments {
  std::string gpus, bytes = "1G";
  engine::Settings settings;
  int iterations = 5, warmups = 1, repeat = 1;
  double deadline = 20;
  bool verify = true;
};

int report(const engine::Failure& failure) {
  std::printf("%s: %s\n", std::string(verdict::name(failure.cls)).c_str(), failure.error.text().c_str());
  return verdict::exit_code(failure.cls);
}

void print(const engine::Figure& figure) {
  auto times = figure.samples.times;
  std::sort(times.begin(), times.end());
  const auto rate = [&](Nanoseconds t) {
    return format_rate(verdict::busbw(figure.operation, figure.ranks, figure.samples.bytes, t));
  };
  if (times.empty()) return;
  std::printf("%-14s %-24s %10s GB/s median, %s to %s, of %s (%s), %s, %llu wrong%s%s%s%s\n",
              std::string(verdict::name(figure.operation)).c_str(), figure.subject.c_str(),
              rate(times[times.size() / 2]).c_str(), rate(times.back()).c_str(), rate(times.front()).c_str(),
              figure.ceiling > 0 ? format_rate(figure.ceiling).c_str() : "?", figure.ceiling_text.c_str(),
              format_size(figure.samples.bytes).c_str(),
              static_cast<unsigned long long>(figure.samples.wrong),
              figure.samples.first_wrong.empty() ? "" : ": ", figure.samples.first_wrong.c_str(),
              figure.remark.empty() ? "" : "; ", figure.remark.c_str());
}

int once(const Arguments& arguments, std::uint64_t bytes) {
  const auto begin = Clock::now();
  const auto since = [&] { return Seconds(Clock::now() - begin).count(); };
  const auto deadline =
      Deadline::in(std::chrono::duration_cast<Clock::duration>(Seconds(arguments.deadline)));
  auto engine = engine::make_nccl_engine({});
  auto opened = engine->open(arguments.settings, deadline);
  if (!opened) return report(opened.failure());
  const double open_at = since();
  engine::Task task;
  task.bytes = bytes;
  task.iterations = arguments.iterations;
  task.warmups = arguments.warmups;
  task.verify = arguments.verify;
  task.seed = static_cast<std::uint64_t>(::getpid());
  auto figures = engine->measure_alone(task, deadline);
  if (!figures) return report(figures.failure());
  const double measured_at = since();
  std::string versions;
  for (const auto& [what, version] : opened->description.versions) versions += what + " " + version + "  ";
  std::printf("%d x %s  %s\n", opened->description.ranks, opened->description.device_text.c_str(),
              versions.c_str());
  if (!opened->description.line_text.empty())
    std::printf("network: %s, %s GB/s\n", opened->description.line_text.c_str(),
                format_rate(opened->description.line_rate).c_str());
  std::uint64_t wrong = 0;
  for (const auto& figure : *figures) {
    print(figure);
    wrong += figure.samples.wrong;
  }
  std::printf("open %.3f s, all measured %.3f s\n", open_at, measured_at);
  return wrong == 0 ? 0 : verdict::exit_code(verdict::Class::corrupt);
}

// Ends as the worker does: without destructors, which is faster and can't hang.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

int in_a_process(const Arguments& arguments, std::uint64_t bytes) {
  const auto begin = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) leave(once(arguments, bytes));
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) < 0) return 2;
  std::printf("whole process %.3f s\n", Seconds(Clock::now() - begin).count());
  std::fflush(nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Figures and stages of the engine on this node's GPUs"};
  Arguments arguments;
  app.add_option("--gpus", arguments.gpus, "numbers or UUIDs, with commas; all where not given");
  app.add_option("--bytes", arguments.bytes, "of the collective, and of the buffers");
  app.add_option("--iterations", arguments.iterations);
  app.add_option("--warmups", arguments.warmups);
  app.add_option("--repeat", arguments.repeat, "so many processes one after the other");
  app.add_option("--deadline", arguments.deadline, "seconds");
  app.add_option("--cuda", arguments.settings.cuda_library, "path of libcuda.so.1");
  app.add_option("--nccl", arguments.settings.library, "path of libnccl.so.2");
  app.add_option("--nvml", arguments.settings.nvml_library, "path of libnvidia-ml.so.1");
  app.add_flag("!--no-verify", arguments.verify);
  CLI11_PARSE(app, argc, argv);
  auto bytes = parse_size(arguments.bytes);
  if (!bytes) {
    std::fprintf(stderr, "%s\n", bytes.error().text().c_str());
    return 2;
  }
  arguments.settings.most_bytes = *bytes;
  if (!arguments.gpus.empty()) arguments.settings.gpus = split(arguments.gpus, ',');
  if (arguments.repeat <= 1) leave(once(arguments, *bytes));
  int worst = 0;
  for (int i = 0; i < arguments.repeat; ++i) worst = std::max(worst, in_a_process(arguments, *bytes));
  return worst;
}
