// spank_nccl_check_gate.so: starts the gate from slurmd's job prolog, for sites that want everything in
// plugstack.conf. Slurm calls no slurm_spank_init here, so every hook reads its own arguments. Nothing of a
// job's text is touched.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "base/deadline.hpp"
#include "base/process.hpp"
#include "spank/arguments.hpp"
#include "spank/guard.hpp"
#include "spank/slurm_api.hpp"

extern "C" {
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(nccl_check_gate, 1)
}

namespace {

using namespace nccl_check;
using namespace nccl_check::spank;

// The gate keeps a deadline of its own, minutes below this; this ends a gate that is stuck.
constexpr std::chrono::minutes longest_gate{15};
constexpr std::chrono::seconds longest_cleaning{10};
// By which the gate demands that the prolog fail, and the node be drained by Slurm.
constexpr int gate_demands_failure = 1;

int run_gate(int argc, char** argv, const char* flag, Clock::duration most) {
  const auto arguments = parse_arguments(argc, argv);
  if (!arguments) {
    slurm_error("nccl-check: %s; the gate is not started", arguments.error().text().c_str());
    return 0;
  }
  Command command;
  command.program = arguments->program;
  command.arguments = {"gate"};
  if (flag != nullptr) command.arguments.emplace_back(flag);
  if (arguments->config != Arguments{}.config)
    command.arguments.insert(command.arguments.end(), {"--config", arguments->config});
  for (char** variable = environ; *variable != nullptr; ++variable)
    command.environment.emplace_back(*variable);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) >= 0) command.descriptors.emplace_back(fd, fd);

  auto gate = Child::start(command);
  if (!gate) {
    slurm_error("nccl-check: %s; the job is not checked", gate.error().text().c_str());
    return 0;
  }
  const auto exit = gate->wait(Deadline::in(most));
  if (!exit) {
    slurm_error("nccl-check: the gate (pid %d) did not end by its deadline and is killed", gate->pid());
    gate->end(std::chrono::milliseconds(100));
    return 0;
  }
  if (exit->clean()) return 0;
  slurm_error("nccl-check: the gate ended with %s", exit->text().c_str());
  return exit->signal == 0 && exit->code == gate_demands_failure ? -1 : 0;
}

}  // namespace

extern "C" {

int slurm_spank_job_prolog(spank_t, int argc, char** argv) {
  return guarded("slurm_spank_job_prolog", 0, [&] { return run_gate(argc, argv, nullptr, longest_gate); });
}

int slurm_spank_job_epilog(spank_t, int argc, char** argv) {
  return guarded("slurm_spank_job_epilog", 0, [&] {
    run_gate(argc, argv, "--after-job", longest_cleaning);
    return 0;  // a failing epilog would drain the node
  });
}

}  // extern "C"
