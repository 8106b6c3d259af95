#include "spank/step.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "option/spec.hpp"
#include "spank/arguments.hpp"
#include "spank/options.hpp"
#include "spank/own_check.hpp"
#include "spank/plan.hpp"
#include "spank/record.hpp"

namespace nccl_check::spank::step {
namespace {

constexpr std::chrono::milliseconds head_start{300};

// Between Slurm's calls into this process, and into the tasks forked from it.
struct State {
  std::optional<Arguments> arguments;  // nothing: plugstack.conf has an error, which was logged
  std::optional<option::Spec> spec;
  std::optional<Asked> asked;
  Expected expected;
  std::uint32_t step = 0;
  std::uint32_t node_rank = 0;
  std::uint32_t tasks = 0;         // on this node
  std::vector<std::string> lines;  // for the user, as soon as he can be reached
  std::unique_ptr<SharedOutcome> own_check;
};

State& state() {
  static State one;
  return one;
}

template <class T>
T item(spank_t spank, spank_item_t which, const char* what) {
  T value{};
  const auto code = spank_get_item(spank, which, &value);
  if (code != ESPANK_SUCCESS)
    slurm_error("nccl-check: cannot read the step's %s: %s", what, spank_strerror(code));
  return value;
}

void set(spank_t spank, const char* name, const std::string& value) {
  // An inner srun hands on what the batch step's host had: what does not hold here must not stay.
  if (value.empty()) {
    spank_unsetenv(spank, name);
    return;
  }
  const auto code = spank_setenv(spank, name, value.c_str(), 1);
  if (code != ESPANK_SUCCESS) slurm_error("nccl-check: cannot set %s: %s", name, spank_strerror(code));
}

std::string rate(double gigabytes_per_second) {
  return gigabytes_per_second > 0 ? format_number(gigabytes_per_second) : "";
}

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::vector<std::string> environment(spank_t spank) {
  char** list = nullptr;
  std::vector<std::string> out;
  if (spank_get_item(spank, S_JOB_ENV, &list) != ESPANK_SUCCESS || list == nullptr) return out;
  for (; *list != nullptr; ++list) out.emplace_back(*list);
  return out;
}

// The record that the gate left for this job on this node, if there is one that can be trusted.
std::optional<Record> job_record(const std::string& path, const Expected& expected) {
  auto record = read_record(path, expected);
  if (record) return std::move(*record);
  slurm_error("nccl-check: %s", record.error().text().c_str());
  return std::nullopt;
}

// Once for the job, by the first step on the node that the verdict's host list starts with.
std::vector<std::string> lines_to_show(const Record& record, const std::string& path, StepKind kind,
                                       std::uint32_t step) {
  if (record.node != record.first_node) return {};
  const bool first_step = kind == StepKind::batch || kind == StepKind::interactive || step == 0;
  return claim_showing(path, first_step) ? record.lines : std::vector<std::string>{};
}

// The value of a variable in a list of "NAME=value"; "" where there is none.
std::string value(const std::vector<std::string>& variables, const std::string& name) {
  for (const auto& variable : variables)
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  return "";
}

CheckRequest request(spank_t spank, const State& now) {
  CheckRequest wanted;
  wanted.program = now.arguments->program;
  wanted.config = now.arguments->config;
  wanted.spec = now.asked->spec;
  wanted.step = now.step;
  wanted.user = now.expected.user;
  wanted.group = item<gid_t>(spank, S_JOB_GID, "group");
  wanted.environment = environment(spank);
  wanted.node = value(wanted.environment, "SLURMD_NODENAME");
  wanted.nodes = value(wanted.environment, "SLURM_STEP_NODELIST");
  // The components of a het job's step are checked as one: the leader's id, the node's rank among all of
  // them. Slurm has set both for the task, whatever the user's environment said.
  wanted.job = number(value(wanted.environment, "SLURM_JOB_ID")).value_or(now.expected.job);
  wanted.node_rank = number(value(wanted.environment, "SLURM_NODEID")).value_or(now.node_rank);
  return wanted;
}

Outcome check_now(spank_t spank, State& now) {
  const auto wanted = request(spank, now);
  const auto checked = run_check(wanted);
  // Every node has the same verdict: the first one says it, before a task ends, since srun may kill all
  // others then. The other nodes give it the time to.
  if (wanted.node_rank == 0) {
    tell_user(checked.lines);
  } else {
    for (const auto& line : checked.lines) slurm_info("%s", line.c_str());
    if (checked.outcome.fails) std::this_thread::sleep_for(head_start);
  }
  now.own_check->publish(checked.outcome);
  return checked.outcome;
}

Outcome check_of_first_task(State& now) {
  const auto time = now.asked->spec.time.value_or(longest_check) + 3 * grace;
  const auto outcome = now.own_check->wait(time);
  if (!outcome) slurm_error("nccl-check: the node's first task ended without a verdict");
  return outcome.value_or(Outcome{});
}

}  // namespace

int init(spank_t spank, int argc, char** argv, spank_opt_cb_f check, spank_opt_cb_f environment) {
  auto& now = state();
  now = State{};
  // First, so that Slurm knows the option even if nothing else works here.
  register_options(spank, check, environment);
  auto arguments = parse_arguments(argc, argv);
  if (!arguments) {
    slurm_error("nccl-check: %s; this step goes on without the plugin", arguments.error().text().c_str());
    return 0;
  }
  now.arguments = std::move(*arguments);
  return 0;
}

int check_option(const char* argument) {
  auto parsed = option::parse(option::normalise(argument));
  if (const auto* bad = std::get_if<option::BadWord>(&parsed)) {
    slurm_error("nccl-check: %s", bad->line().c_str());
    return -1;
  }
  state().spec = std::get<option::Spec>(parsed);
  return 0;
}

int init_post_opt(spank_t spank) {
  auto& now = state();
  if (!now.arguments) {
    if (now.spec && !now.spec->off && item<std::uint32_t>(spank, S_JOB_NODEID, "node rank") == 0)
      now.lines.push_back(
          "nccl-check: untested: the plugin's line in this node's plugstack.conf is wrong, see slurmd's log");
    return 0;
  }
  now.step = item<std::uint32_t>(spank, S_JOB_STEPID, "id");
  const auto kind = kind_of(now.step);
  if (kind == StepKind::external) return 0;
  now.expected = {item<std::uint32_t>(spank, S_JOB_ID, "job id"), std::nullopt,
                  item<uid_t>(spank, S_JOB_UID, "user")};
  now.node_rank = item<std::uint32_t>(spank, S_JOB_NODEID, "node rank");
  now.tasks = item<std::uint32_t>(spank, S_JOB_LOCAL_TASK_COUNT, "task count");
  // What srun says of itself; and an srun that makes an allocation starts its step 0.
  char said[2];
  const bool inside = spank_getenv(spank, asked_inside_variable, said, sizeof said) == ESPANK_SUCCESS ||
                      (kind == StepKind::srun && now.step != 0);
  if (now.spec) now.asked = Asked{*now.spec, inside};
  spank_unsetenv(spank, asked_inside_variable);

  const auto path = job_file(now.expected.job);
  const auto record = job_record(path, now.expected);
  set(spank, "NCCL_CHECK_VERDICT", record ? std::string(verdict::name(record->verdict)) : "");
  set(spank, "NCCL_CHECK_BUSBW", record ? rate(record->busbw) : "");
  set(spank, "NCCL_CHECK_FILE", record ? path : "");
  if (record) now.lines = lines_to_show(*record, path, kind, now.step);
  if (now.node_rank == 0 && unanswered(kind, now.asked, record))
    now.lines.push_back("nccl-check: untested: no check was made: this node has no usable " + path +
                        " (does the site's Prolog start nccl-check? slurmd's log says more)");
  if (needs_own_check(kind, now.asked, record)) {
    auto shared = SharedOutcome::make();
    if (shared) {
      now.own_check = std::move(*shared);
    } else {
      now.lines.push_back("nccl-check: untested: " + shared.error().text());
    }
  }
  return 0;
}

int user_init(spank_t) {
  auto& now = state();
  if (!now.lines.empty()) tell_user(now.lines);
  now.lines.clear();
  return 0;
}

int task_post_fork(spank_t spank) {
  auto& now = state();
  if (!now.own_check) return 0;
  const auto task = static_cast<std::uint32_t>(item<int>(spank, S_TASK_ID, "task"));
  if (task + 1 == now.tasks) now.own_check->forked();
  return 0;
}

int task_init(spank_t spank) {
  auto& now = state();
  if (!now.own_check) return 0;
  // Until the user's code runs this fork bears slurmstepd's name, and proctrack/linuxproc kills nothing of
  // that name: a step cancelled during its check would go on to the user's code.
  ::prctl(PR_SET_NAME, "nccl-check");
  const bool first = item<int>(spank, S_TASK_ID, "task") == 0;
  const auto outcome = first ? check_now(spank, now) : check_of_first_task(now);
  // The task is a fork of its own, and under `optional` Slurm would ignore an error and run the user's code.
  if (outcome.fails) ::_exit(verdict::exit_code(outcome.verdict));
  set(spank, "NCCL_CHECK_VERDICT", std::string(verdict::name(outcome.verdict)));
  set(spank, "NCCL_CHECK_BUSBW", rate(outcome.busbw));
  return 0;
}

}  // namespace nccl_check::spank::step
