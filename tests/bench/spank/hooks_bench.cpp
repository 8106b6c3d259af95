// What the plugin's hooks cost a job: each timed by itself, in process, over many scenes. Ends with 1 where
// the median of a hook, or of all hooks of a process together, is a millisecond or more.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "fake_slurm.hpp"
#include "private_run.hpp"

namespace {

using namespace nccl_check::fake;
using Clock = std::chrono::steady_clock;

constexpr int scenes = 2000;
constexpr double limit_us = 1000;

std::string job_file() {
  return "/run/nccl-check/jobs/" + std::to_string(slurm().job) + ".json";
}

// As long as it gets: 64 KiB is the most that is read.
void write_record(std::size_t bytes) {
  std::string lines;
  const std::string line = "\"nccl-check: slow n3: send/recv 11.2 GB/s with n1 and n4, limit 44\"";
  while (lines.size() + line.size() + 400 < bytes) lines += (lines.empty() ? "" : ",") + line;
  const auto path = job_file();
  ::unlink(path.c_str());
  std::ofstream(path) << R"({"schema":"nccl-check.verdict","version":1,"job":)" << slurm().job
                      << R"(,"step":null,"uid":)" << ::getuid()
                      << R"(,"restart":0,"node":"n1","nodes":"n[1-4]","spec":"","verdict":"pass",)"
                      << R"("job_fails":false,"busbw":0.117,"lines":[)" << lines << "]}";
  ::chmod(path.c_str(), 0640);
}

struct Table {
  std::map<std::string, std::vector<double>> times;  // microseconds
  std::vector<double> sums;

  void time(const std::string& what, const std::function<void()>& body) {
    const auto begin = Clock::now();
    body();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    times[what].push_back(us);
    sums.back() += us;
  }
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

bool print(const char* title, Table& table) {
  std::printf("%s\n", title);
  table.times["  together"] = table.sums;
  bool fast = true;
  for (const auto& [what, values] : table.times) {
    const double median = quantile(values, 0.5);
    std::printf("  %-28s median %8.1f us   99 %% %8.1f us\n", what.c_str(), median, quantile(values, 0.99));
    fast = fast && median < limit_us;
  }
  return fast;
}

bool submit(const Plugin& plugin, const char* title, const char* spec) {
  Table table;
  for (int i = 0; i < scenes; ++i) {
    reset();
    slurm().context = S_CTX_LOCAL;
    table.sums.push_back(0);
    table.time("init", [&] { plugin.call("slurm_spank_init"); });
    if (spec != nullptr) table.time("option", [&] { slurm().options.at("nccl-check")(0, spec, 0); });
    table.time("init_post_opt", [&] { plugin.call("slurm_spank_init_post_opt"); });
  }
  return print(title, table);
}

bool step(const Plugin& plugin, const char* title, const char* spec, std::size_t record_bytes) {
  Table table;
  reset();
  if (record_bytes > 0) write_record(record_bytes);
  for (int i = 0; i < scenes; ++i) {
    reset();
    slurm().context = S_CTX_REMOTE;
    slurm().user = ::getuid();
    slurm().step = static_cast<std::uint32_t>(i);
    table.sums.push_back(0);
    table.time("init", [&] { plugin.call("slurm_spank_init"); });
    if (spec != nullptr) table.time("option", [&] { slurm().options.at("nccl-check")(0, spec, 1); });
    table.time("init_post_opt", [&] { plugin.call("slurm_spank_init_post_opt"); });
    table.time("user_init", [&] { plugin.call("slurm_spank_user_init"); });
    table.time("task_post_fork", [&] { plugin.call("slurm_spank_task_post_fork"); });
    table.time("task_init", [&] { plugin.call("slurm_spank_task_init"); });
  }
  ::unlink(job_file().c_str());
  return print(title, table);
}

void load_once() {
  void* handle = ::dlopen(NCCL_CHECK_TEST_PLUGIN, RTLD_LAZY);
  if (handle == nullptr || ::dlclose(handle) != 0) std::exit(1);
}

bool load() {
  Table table;
  for (int i = 0; i < 200; ++i) {
    table.sums.push_back(0);
    table.time("dlopen and dlclose", load_once);
  }
  return print("loading (Slurm's own part)", table);
}

}  // namespace

// --load N: nothing but loading the plugin N times, for counting instructions.
int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--load") {
    for (int i = std::atoi(argv[2]); i > 0; --i) load_once();
    return 0;
  }
  if (const auto failed = enter_private_run(); !failed.empty()) {
    std::fprintf(stderr, "%s (run it as root)\n", failed.c_str());
    return 2;
  }
  // What the first step on the verdict's first node shows goes to nobody here.
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDERR_FILENO);
  bool fast = load();
  const Plugin plugin(NCCL_CHECK_TEST_PLUGIN);
  const char* all_words = "node,job,strict,busbw=44.5,size=256M,collective=all_reduce,time=10s";
  fast = submit(plugin, "srun, without the option", nullptr) && fast;
  fast = submit(plugin, "srun --nccl-check=<seven words>", all_words) && fast;
  fast = step(plugin, "slurmstepd, a job without the option", nullptr, 0) && fast;
  fast = step(plugin, "slurmstepd, a verdict of 1 KiB", "strict", 1024) && fast;
  fast = step(plugin, "slurmstepd, a verdict of 60 KiB", "strict", 60 * 1024) && fast;
  return fast ? 0 : 1;
}
