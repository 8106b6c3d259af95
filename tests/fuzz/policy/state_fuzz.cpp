// Files of the state folder, and what nccl-check-slurm prints, of any content: refused with the place, or
// within bounds. The first byte says which.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "policy/slurm_calls.hpp"
#include "policy/state/drains.hpp"
#include "policy/state/recent.hpp"
#include "policy/state/results.hpp"
#include "policy/state/strikes.hpp"

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

// A folder in memory where there is one; it goes with the process.
struct Folder {
  Folder() {
    char name[] = "/dev/shm/nccl-check-fuzz.XXXXXX";
    char other[] = "/tmp/nccl-check-fuzz.XXXXXX";
    const char* made = ::mkdtemp(name);
    if (made == nullptr) made = ::mkdtemp(other);
    demand(made != nullptr);
    path = made;
  }
  ~Folder() {
    for (const auto* file : {"/file", "/file.lock", "/file.broken"}) ::unlink((path + file).c_str());
    ::rmdir(path.c_str());
  }
  std::string path;
};

template <class Answer>
void known(const Answer& answer) {
  using nccl_check::policy::Got;
  demand(answer.got == Got::done || !answer.why.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nccl_check::policy;
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const Folder folder;
  const std::string file = folder.path + "/file";
  if (data[0] % 8 < 4) {
    std::ofstream(file, std::ios::trunc) << text;
    ::chmod(file.c_str(), 0600);
  }
  int bad = 0;
  switch (data[0] % 8) {
    case 0:
      if (const auto strikes = read_strikes(file, "n1")) {
        demand(strikes->size() <= 64);
        const int count = count_strikes(*strikes, 1'000'000, std::chrono::hours(24));
        demand(count >= 0 && count <= 64);
      } else {
        demand(strikes.error().where.starts_with(file));
        // Whatever was there, the next strike counts.
        demand(add_strike(file, "n1", {1'000'000, 7, nccl_check::verdict::Class::slow, {}},
                          std::chrono::hours(24))
                   .ok());
        demand(read_strikes(file, "n1")->size() == 1);
      }
      break;
    case 1:
      if (const auto passes = read_passes(file, "n1")) {
        demand(passes->size() <= 16);
        const Facts node{{"boot", "b"}};
        if (const auto pass = find_pass(*passes, true, {}, node, 1'000'000, std::chrono::hours(6)))
          demand(pass->time <= 1'000'000 && pass->identity == node);
      }
      break;
    case 2:
      if (const auto drains = read_drains(file, "n1"))
        for (const auto& drain : *drains) demand(drain.node == "n1");
      break;
    case 3:
      if (const auto found = find_result(file, 7, bad); found && *found)
        demand((*found)->size() <= most_record_bytes && (*found)->find('\n') == std::string::npos);
      break;
    case 4:
      known(wire::reasons(text));
      known(wire::drain(text));
      break;
    case 5:
      known(wire::fail_job(text));
      break;
    case 6:
      known(wire::node(text));
      break;
    default:
      known(wire::addresses(text));
      known(wire::leaves(text));
      known(wire::jobs_on(text));
      break;
  }
  return 0;
}
