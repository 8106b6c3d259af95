// nccl-check: the command line's dispatch and nothing else.
#include <CLI/CLI.hpp>
#include <string>

#include "commands/gate.hpp"
#include "commands/step.hpp"
#include "job/session/coordinator_process.hpp"
#include "policy/paths.hpp"
#include "worker/worker_main.hpp"

int main(int argc, char** argv) {
  using namespace nccl_check;
  CLI::App app{"Proves that a Slurm job's nodes move data as fast as their hardware can.", "nccl-check"};
  app.set_version_flag("--version", "nccl-check " NCCL_CHECK_VERSION);
  app.require_subcommand(1);
  int code = 0;
  const policy::Paths paths;

  commands::GateArguments gate_arguments{paths.config, false};
  auto* gate = app.add_subcommand("gate", "check a job's nodes before it runs: started by a Prolog, as root");
  gate->add_option("--config", gate_arguments.config, "the site's configuration")->capture_default_str();
  gate->add_flag("--after-job", gate_arguments.after_job,
                 "the Epilog's part: remove what was written for the job");
  gate->callback([&] { code = commands::gate(gate_arguments); });

  commands::StepArguments step_arguments;
  step_arguments.config = paths.config;
  auto* step = app.add_subcommand("step", "")->group("");  // started by the plugin
  step->add_option("--config", step_arguments.config);
  step->add_option("--spec", step_arguments.spec);
  step->add_option("--job", step_arguments.job)->required();
  step->add_option("--step", step_arguments.step)->required();
  step->add_option("--node", step_arguments.node)->required();
  step->add_option("--nodelist", step_arguments.nodelist)->required();
  step->add_option("--node-rank", step_arguments.node_rank);
  step->callback([&] { code = commands::step(step_arguments); });

  app.add_subcommand("worker", "")->group("")->callback([&] { code = worker::worker_main(); });
  app.add_subcommand("coordinator", "")->group("")->callback([&] { code = job::coordinator_main(); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int usage = app.exit(error);
    return usage == 0 ? 0 : 2;
  }
  return code;
}
