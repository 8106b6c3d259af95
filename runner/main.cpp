// nccl-check: the command line's dispatch and nothing else.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "commands/config_check.hpp"
#include "commands/env.hpp"
#include "commands/gate.hpp"
#include "commands/node.hpp"
#include "commands/release.hpp"
#include "commands/show.hpp"
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

  commands::ShowArguments show_arguments;
  auto* show = app.add_subcommand("show", "the last verdict on this node, or a job's");
  show->add_option("JOBID", show_arguments.job, "a job's number");
  show->add_flag("--json", show_arguments.json, "the whole record");
  show->callback([&] { code = commands::show(show_arguments, paths, std::cout, std::cerr); });

  commands::ReleaseArguments release_arguments;
  auto* release = app.add_subcommand("release", "take back our own drain of a node, after a passing retest");
  release->add_option("NODE", release_arguments.node, "the node's name")->required();
  release->add_flag("--force", release_arguments.force, "without a passing retest");
  release->callback([&] { code = commands::release(release_arguments, paths); });

  commands::ConfigCheckArguments check_arguments{paths.config};
  auto* config = app.add_subcommand("config", "about the site's configuration")->require_subcommand(1);
  auto* check = config->add_subcommand("check", "read it as the gate would, and name every error");
  check->add_option("--config", check_arguments.config, "the file")->capture_default_str();
  check->callback([&] {
    code = commands::config_check(check_arguments, paths, policy::find_slurm_program(), std::cout, std::cerr);
  });

  commands::EnvArguments env_arguments;
  auto* env = app.add_subcommand("env", "what NCCL's environment should be on this node, and why");
  auto* shell = env->add_flag("--shell", env_arguments.shell, "lines for eval");
  env->add_flag("--json", env_arguments.json)->excludes(shell);
  env->add_option("--root", env_arguments.root, "a recorded node's folder")->capture_default_str();
  env->add_option("--nccl", env_arguments.nccl, "NCCL's version; else that of the library found");
  env->add_option("--nodes", env_arguments.nodes, "how many nodes the job has; else Slurm's word");
  env->add_flag("--without-gpus", env_arguments.without_gpus, "for the network alone, where there is no GPU");
  env->callback([&] {
    const char* home = std::getenv("HOME");
    code = commands::env(env_arguments, {environ, home == nullptr ? "" : home, {}}, std::cout, std::cerr);
  });

  commands::NodeArguments node_arguments;
  auto* node = app.add_subcommand("node", "what this node is: GPUs, RDMA ports, interfaces, limits");
  node->add_option("--root", node_arguments.root, "a recorded node's folder")->capture_default_str();
  node->add_flag("--json", node_arguments.json, "every fact, with where it was read");
  node->add_option("--record", node_arguments.record,
                   "copy what is read into a new folder, names and addresses replaced, for a report");
  node->callback([&] { code = commands::node(node_arguments, std::cout, std::cerr); });

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
