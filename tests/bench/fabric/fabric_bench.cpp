// Measures one operation over hosts that are network namespaces of this machine, one rank each, and prints
// its bus bandwidth in Gbit/s: the median over iterations of the slowest rank's time.
//   fabric_bench OPERATION BYTES ITERATIONS PROVIDER NAMESPACE...
// send_recv pairs ranks 0 and 1, 2 and 3, ... all at once. PROVIDER "" is the engine's own choice.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "ring.hpp"

namespace {

using namespace nccl_check;
using namespace nccl_check::engine;

std::string measure(fabric::Rank& rank, Task task) {
  auto connected = rank.engine.connect(rank.place, Deadline::in(std::chrono::seconds(10)));
  if (!connected) return connected.failure().error.text();
  task.partner_rank = rank.place.rank ^ 1;
  task.partner = rank.addresses[static_cast<std::size_t>(task.partner_rank)];
  auto samples = rank.engine.measure(task, Deadline::in(std::chrono::seconds(60)));
  if (!samples) return samples.failure().error.text();
  if (samples->wrong != 0) return "wrong data: " + samples->first_wrong;
  rank.meet();
  std::string out = fmt::format("bytes={}", samples->bytes);
  for (const auto time : samples->times) out += fmt::format(" {}", time.count());
  return out;
}

bool enter(const std::string& name) {
  const UniqueFd space(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  return space && setns(space.get(), CLONE_NEWNET) == 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 6) {
    fmt::print(stderr, "usage: fabric_bench OPERATION BYTES ITERATIONS PROVIDER NAMESPACE NAMESPACE...\n");
    return 2;
  }
  Task task;
  const auto bytes = parse_size(arguments[1]);
  const auto iterations = parse_number(arguments[2]);
  if (!verdict::parse(arguments[0], task.operation) || !bytes || !iterations || *iterations < 1) {
    fmt::print(stderr, "fabric_bench: bad operation, size or number of iterations\n");
    return 2;
  }
  task.bytes = *bytes;
  task.iterations = static_cast<int>(*iterations);
  task.seed = 1;
  const std::vector<std::string> spaces(arguments.begin() + 4, arguments.end());

  fabric::RingOf ring;
  ring.ranks = static_cast<int>(spaces.size());
  // Called in the rank's own process before anything is opened there.
  ring.settings = [&](int rank) {
    if (!enter(spaces[static_cast<std::size_t>(rank)]))
      fmt::print(stderr, "fabric_bench: no network namespace '{}'\n", spaces[static_cast<std::size_t>(rank)]);
    auto settings = fabric::RingOf::over("eth0");
    settings.provider = arguments[3];
    return settings;
  };
  const auto said = fabric::run_ring(ring, [&](fabric::Rank& rank) { return measure(rank, task); });

  std::vector<double> slowest(static_cast<std::size_t>(task.iterations), 0);
  std::uint64_t used = 0;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    auto words = split(said[rank], ' ');
    if (words.size() != slowest.size() + 1 || !words[0].starts_with("bytes=")) {
      fmt::print(stderr, "fabric_bench: {}: {}\n", spaces[rank], said[rank]);
      return 1;
    }
    used = std::stoull(words[0].substr(6));
    for (std::size_t i = 0; i < slowest.size(); ++i)
      slowest[i] = std::max(slowest[i], std::stod(words[i + 1]));
  }
  std::sort(slowest.begin(), slowest.end());
  const Nanoseconds median(static_cast<std::int64_t>(slowest[slowest.size() / 2]));
  fmt::print("{:.4f}\n", 8 * verdict::busbw(task.operation, ring.ranks, used, median));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run(std::vector<std::string>(argv + 1, argv + argc));
}
