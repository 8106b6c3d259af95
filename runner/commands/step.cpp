#include "commands/step.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <iostream>

#include "base/log.hpp"
#include "base/text.hpp"
#include "commands/check.hpp"
#include "commands/plan_check.hpp"
#include "commands/record.hpp"
#include "policy/actions.hpp"
#include "policy/paths.hpp"

namespace nccl_check::commands {
namespace {

using job::Participation;
using verdict::Class;

// In a step nothing is drained and no strike given; what is left of a site's action is whether the step
// fails.
bool step_fails(const policy::Config& config, const policy::Plan& plan, const verdict::JobVerdict& verdict) {
  if (plan.consequence == option::Consequence::warn) return false;
  const bool strict = plan.consequence == option::Consequence::strict;
  if (config.mode == policy::Mode::observe && !strict) return false;
  policy::Situation situation;
  situation.is_root = true;
  situation.verdict = verdict;
  return policy::decide_actions(config, plan, situation).job_fails;
}

}  // namespace

int step(const StepArguments& arguments) {
  catch_signals();
  std::string why;
  policy::Config config;
  const auto loaded = policy::load_config(arguments.config);
  if (loaded.config) {
    config = *loaded.config;
  } else {
    why = config_problem(loaded.errors);
  }
  option::Spec spec;
  auto parsed = option::parse(arguments.spec);
  if (const auto* bad = std::get_if<option::BadWord>(&parsed)) {
    std::cerr << "nccl-check: " << bad->line() << '\n';
    return 2;
  }
  spec = std::get<option::Spec>(parsed);
  auto nodes = expand_hostlist(arguments.nodelist);
  if (!nodes || nodes->empty()) {
    std::cerr << "nccl-check: --nodelist: " << (nodes ? "names no node" : nodes.error().text()) << '\n';
    return 2;
  }
  const char* partition = std::getenv("SLURM_JOB_PARTITION");
  const char* cluster = std::getenv("SLURM_CLUSTER_NAME");
  // By the node's numbers; CUDA_VISIBLE_DEVICES counts anew within a step's cgroup.
  const char* gpus = std::getenv("SLURM_STEP_GPUS");
  for (const char* other : {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"})
    if (gpus == nullptr) gpus = std::getenv(other);
  const char* restart = std::getenv("SLURM_RESTART_COUNT");
  const policy::Paths paths;
  // The site's kill switch holds for steps too; whom `when` spares a prolog's check may still ask for his
  // own.
  auto plan = policy::decide(
      config, {partition == nullptr ? "" : partition, static_cast<int>(nodes->size()), true, false}, spec);
  auto setup = plan_check(config, plan, spec,
                          {arguments.node, *nodes, partition == nullptr ? "" : partition, gpu_list(gpus)});
  auto& join = setup.participant.join;
  if (!why.empty() || !plan.check) {
    join.participation = Participation::untested;
    join.why = why.empty() ? plan.why_not : why;
  } else if (::access(paths.disabled.c_str(), F_OK) == 0) {
    join.participation = Participation::off;
    join.why = "switched off by " + paths.disabled;
  }
  if (!plan.check) setup.verdict_by = setup.return_by = Deadline::in(config.join);
  setup.identity = {cluster == nullptr ? "" : cluster, arguments.job, arguments.step,
                    restart == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(restart, nullptr, 10))};
  meet(setup, policy::find_slurm_program(), setup.verdict_by);
  if (join.participation == Participation::measure) {
    worker::Options options;
    options.program = setup.program;
    options.environment = worker::clean_environment(environ);
    setup.participant.worker = options;
  }
  auto outcome =
      run_check(setup, {[&](const job::VerdictMessage& message) {
                          // Nothing is acted on; that the step fails is the plugin's to do, on every node.
                          job::Acted acted;
                          acted.text = step_fails(config, plan, message.job) ? "the step is ended" : "";
                          return acted;
                        },
                        [](const job::FailJob&) { return std::string(); }, [](const CheckOutcome&) {}});
  outcome.job_fails = outcome.from_coordinator && step_fails(config, plan, outcome.verdict);
  const RecordFacts facts{arguments.job,
                          arguments.step,
                          setup.identity.restart,
                          ::geteuid(),
                          arguments.node,
                          compress_hostlist(*nodes),
                          option::canonical(spec),
                          std::time(nullptr),
                          std::string(policy::name(config.mode)),
                          false};
  std::cout << make_record(facts, outcome) << std::endl;
  return verdict::exit_code(outcome.verdict.cls);
}

}  // namespace nccl_check::commands
