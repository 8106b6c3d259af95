#include "commands/gate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "commands/check.hpp"
#include "commands/plan_check.hpp"
#include "commands/prolog_environment.hpp"
#include "commands/record.hpp"
#include "node/confinement.hpp"
#include "node/gpu_files.hpp"
#include "option/spec.hpp"
#include "policy/actions.hpp"
#include "policy/enforce.hpp"
#include "policy/first_look.hpp"
#include "policy/paths.hpp"
#include "policy/state/recent.hpp"
#include "policy/state/results.hpp"
#include "report/lines.hpp"

namespace nccl_check::commands {
namespace {

using job::Participation;
using verdict::Class;

// Files of jobs whose epilog never came.
constexpr std::chrono::hours leftover_age{24 * 30};
// By when, after the verdict's deadline, the culprits have acted and the job is failed; the rest is for the
// last word.
constexpr auto decide_by = Milliseconds(700);
constexpr auto fail_job_by = Milliseconds(1600);
constexpr auto address_limit = std::chrono::seconds(3);
constexpr auto gpu_files_limit = std::chrono::seconds(3);
constexpr auto shared_limit = Milliseconds(1000);

struct Gate {
  PrologEnvironment job;
  policy::Config config;
  policy::Plan plan;
  option::Spec spec;
  policy::Paths paths;
  CheckSetup setup;
  std::unique_ptr<policy::Slurm> slurm;
  bool fail_prolog = false;

  void note(const Status& status) {
    if (!status) log(Level::warning, fmt::format("job {}: {}", job.job, status.error().text()));
  }

  [[nodiscard]] RecordFacts facts() const {
    return {job.job,
            {},
            job.restart,
            job.uid,
            job.node,
            compress_hostlist(job.nodes),
            option::canonical(spec),
            std::time(nullptr),
            std::string(policy::name(config.mode)),
            setup.participant.join.participation == Participation::reuse};
  }

  void write(const CheckOutcome& outcome) {
    std::string remark;
    note(policy::write_job_file(paths.jobs(), job.job, make_record(facts(), outcome), job.uid, remark));
    if (!remark.empty()) log(Level::warning, fmt::format("job {}: {}", job.job, remark));
  }

  job::Acted decide(const job::VerdictMessage& message);
  std::string fail_job(const job::FailJob& order);
  void remember(const CheckOutcome& outcome);
  void look_for_recent_verdicts();
};

job::Acted Gate::decide(const job::VerdictMessage& message) {
  policy::Situation situation;
  situation.node = job.node;
  situation.job = job.job;
  situation.now = std::time(nullptr);
  situation.verdict = message.job;
  const auto& nodes = message.job.nodes;
  // Where nobody is to blame the coordinator asks one node alone, and that is this one.
  situation.is_root = std::none_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.culprit; });
  const bool to_blame = message.own && message.own->culprit;
  const Deadline until(setup.verdict_by.at() + decide_by);
  if (to_blame) {
    auto strikes = policy::read_strikes(paths.strikes(), job.node);
    if (strikes)
      situation.strikes = std::move(*strikes);
    else
      log(Level::warning, strikes.error().text());
    if (message.own->cls == Class::slow && config.mode == policy::Mode::enforce) {
      const auto others = slurm->jobs_on(job.node, until.earlier(Deadline::in(shared_limit)));
      situation.shared =
          std::any_of(others.value.begin(), others.value.end(), [&](auto id) { return id != job.job; });
      if (!others.ok())
        log(Level::warning, fmt::format("whether other jobs run here is not known: {}", others.why));
    }
  }
  const auto decision = policy::decide_actions(config, plan, situation);
  policy::Case about;
  about.node = job.node;
  about.partition = job.partition;
  about.job = job.job;
  about.restart = job.restart;
  about.across_nodes = message.own && !message.own->partners.empty();
  if (message.own) {
    about.verdict = *message.own;
    about.reason = report::drain_reason(*message.own, job.job);
  }
  about.now = situation.now;
  // The job is failed when all culprits have acted, by the one of them that the coordinator names.
  auto here = decision;
  here.fail_job = false;
  const auto outcome = policy::enforce(
      config, here, about, paths, *slurm, [](policy::Fate, const std::string&) { return std::string(); },
      until, policy::sleep_for);
  for (const auto& remark : outcome.notes) log(Level::warning, fmt::format("job {}: {}", job.job, remark));
  fail_prolog = fail_prolog || outcome.fail_prolog;
  if (to_blame)
    log(Level::notice, fmt::format("job {}: {} {}: {}: {}", job.job, verdict::name(message.own->cls),
                                   job.node, message.own->detail, outcome.done));
  job::Acted acted;
  acted.text = outcome.done;
  acted.drained = outcome.action == verdict::Action::drain;
  // A drain that the breaker took back leaves the job alone; where slurmctld gave no answer the failing
  // prolog fails it.
  acted.job_fails = decision.job_fails && !outcome.fail_prolog &&
                    !(decision.drain && outcome.action == verdict::Action::warn);
  return acted;
}

std::string Gate::fail_job(const job::FailJob& order) {
  policy::JobFailure failure;
  failure.job = job.job;
  failure.restart = job.restart;
  failure.told_if_requeued = join(order.requeued, "\n");
  failure.told_if_held = join(order.held, "\n");
  failure.told_if_cancelled = join(order.cancelled, "\n");
  failure.avoid = order.avoid;
  failure.hold = order.hold;
  const auto failed = slurm->fail_job(failure, Deadline(setup.verdict_by.at() + fail_job_by));
  for (const auto& remark : failed.value.notes)
    log(Level::warning, fmt::format("job {}: {}", job.job, remark));
  if (failed.ok()) return std::string(verdict::name(failed.value.fate));
  log(Level::error, fmt::format("job {} could not be failed: {}", job.job, failed.why));
  fail_prolog = fail_prolog || (!order.out.empty() && config.no_answer == policy::NoAnswer::fail_prolog);
  return "";
}

void Gate::look_for_recent_verdicts() {
  if (plan.reuse.count() == 0 || setup.participant.join.participation != Participation::measure) return;
  const auto passes = policy::read_passes(paths.recent(), job.node);
  if (!passes) {
    log(Level::warning, passes.error().text());
    return;
  }
  const auto identity = policy::this_node();
  const auto now = std::time(nullptr);
  double busbw = 0;
  for (const bool across : {false, true}) {
    if (across ? !setup.coordinator.job_scope : !setup.coordinator.node_scope) continue;
    const auto pass =
        policy::find_pass(*passes, across, setup.participant.join.settings, identity, now, plan.reuse);
    if (!pass) return;
    // What a user asks for beyond the site's limits must have been reached by what is reused.
    if (plan.wanted_busbw > 0 && pass->busbw < plan.wanted_busbw) return;
    busbw = std::max(busbw, pass->busbw);
  }
  setup.participant.join.participation = Participation::reuse;
  setup.participant.join.why = "a recent verdict";
  setup.participant.join.reused_busbw = busbw;
}

void Gate::remember(const CheckOutcome& outcome) {
  note(policy::append_result(paths.results(), make_record(facts(), outcome)));
  if (outcome.own && outcome.own->culprit) return note(policy::forget_passes(paths.recent(), job.node));
  const bool measured = setup.participant.join.participation == Participation::measure && outcome.description;
  if (outcome.verdict.cls != Class::pass || !measured) return;
  policy::Pass pass;
  pass.time = std::time(nullptr);
  pass.job = job.job;
  pass.busbw = outcome.verdict.busbw;
  pass.limit = outcome.verdict.limit;
  pass.settings = setup.participant.join.settings;
  pass.identity = policy::this_node();
  for (const bool across : {false, true}) {
    if (across ? !setup.coordinator.job_scope : !setup.coordinator.node_scope) continue;
    pass.across_nodes = across;
    note(policy::add_pass(paths.recent(), job.node, pass));
  }
}

int check_job(Gate& gate, const std::string& config_path) {
  auto& job = gate.job;
  const bool asked = job.option.has_value();
  const std::string file = policy::job_file(gate.paths.jobs(), job.job);
  if (file_exists(file)) {
    // Both ways in are configured: the first one's verdict stands. A file of an earlier run of the job is
    // none, and steps can't tell (Slurm gives them no restart count), so it goes.
    const auto record = read_file(file, policy::most_record_bytes, Trust::root_only);
    if (record && record->find(fmt::format("\"restart\":{},", job.restart)) != std::string::npos) return 0;
    gate.note(policy::remove_job_file(gate.paths.jobs(), job.job));
  }
  policy::sweep_job_files(gate.paths.jobs(), leftover_age);

  std::string why;
  const auto loaded = policy::load_config(config_path);
  if (loaded.config) {
    gate.config = *loaded.config;
  } else {
    for (const auto& error : loaded.errors) log(Level::error, error.text());
    why = config_problem(loaded.errors);
    if (!asked) return 0;
  }
  if (asked) {
    auto parsed = option::parse(*job.option);
    if (auto* bad = std::get_if<option::BadWord>(&parsed))
      why = bad->line();
    else
      gate.spec = std::get<option::Spec>(parsed);
  }
  policy::JobFacts facts{job.partition, static_cast<int>(job.nodes.size()), asked,
                         file_exists(gate.paths.disabled)};
  const bool disabled = facts.disabled;
  // A node that is switched off still tells its peers so, or they would wait for it.
  facts.disabled = false;
  gate.plan = policy::decide(gate.config, facts, gate.spec);
  gate.setup = plan_check(gate.config, gate.plan, gate.spec,
                          {job.node, job.nodes, job.partition, gpu_list(std::getenv("SLURM_JOB_GPUS"))});
  for (const auto& remark : gate.plan.notes) log(Level::notice, fmt::format("job {}: {}", job.job, remark));
  if (!gate.plan.check) {
    if (!gate.plan.tell) return 0;
    CheckOutcome outcome;
    outcome.verdict.cls = Class::untested;
    outcome.verdict.summary = gate.plan.why_not;
    outcome.lines = report::lines(outcome.verdict, job.nodes, {}, report::Fate::runs, {});
    gate.write(outcome);
    return 0;
  }
  auto& join = gate.setup.participant.join;
  if (!why.empty()) {
    join.participation = Participation::untested;
    join.why = why;
  } else if (disabled) {
    join.participation = Participation::off;
    join.why = "switched off by " + gate.paths.disabled;
  }
  gate.look_for_recent_verdicts();

  const std::string slurm_program = policy::find_slurm_program();
  gate.slurm = policy::make_slurm(slurm_program, policy::slurm_environment(environ));
  gate.setup.identity = {job.cluster, job.job, rendezvous::no_step, job.restart};
  meet(gate.setup, slurm_program, gate.setup.verdict_by.earlier(Deadline::in(address_limit)));

  if (join.participation == Participation::measure || join.participation == Participation::reuse) {
    worker::Options options;
    options.program = gate.setup.program;
    options.environment = worker::clean_environment(environ);
    auto identity = worker::find_identity(gate.config.user);
    if (identity) {
      options.identity = *identity;
      options.most_memory = gate.config.memory;
      options.ways_out = node::ways_out("");
      gate.setup.participant.worker = options;
    } else {
      join.participation = Participation::untested;
      join.why = identity.error().text();
    }
  }
  if (gate.setup.participant.engine.engine == "nccl")
    if (auto made = node::make_gpu_files("/", gate.setup.verdict_by.earlier(Deadline::in(gpu_files_limit)));
        !made)
      log(Level::warning, made.error().text());
  const auto outcome = run_check(gate.setup, {[&](const auto& message) { return gate.decide(message); },
                                              [&](const auto& order) { return gate.fail_job(order); },
                                              [&](const auto& known) { gate.write(known); }});
  gate.remember(outcome);
  for (const auto& line : outcome.lines) log(Level::info, fmt::format("job {}: {}", job.job, line));
  return gate.fail_prolog ? 1 : 0;
}

}  // namespace

int gate(const GateArguments& arguments) {
  const Lookup lookup = [](const char* name) { return std::getenv(name); };
  if (!arguments.after_job && !option_of(lookup) &&
      policy::first_look_at(arguments.config.c_str()) == policy::FirstLook::nothing_to_do)
    return 0;
  log_to_system(true);
  try {
    Gate gate;
    auto job = read_prolog_environment(lookup);
    if (!job) {
      log(Level::error, job.error().text());
      return 0;  // whoever started this is not slurmd, or the job is none that could be checked
    }
    gate.job = std::move(*job);
    if (arguments.after_job) {
      gate.note(policy::remove_job_file(gate.paths.jobs(), gate.job.job));
      return 0;
    }
    catch_signals();
    return check_job(gate, arguments.config);
  } catch (const std::exception& e) {
    log(Level::error, fmt::format("the gate ends without a verdict, the job is allowed: {}", e.what()));
    return 0;
  }
}

}  // namespace nccl_check::commands
