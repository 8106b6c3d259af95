#include "policy/actions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nccl_check::policy {
namespace {

using verdict::Action;
using verdict::Class;

struct OwnAction {
  Action action;
  std::string why;  // where it is milder than the configured one
};

// What the configuration wants for a node to blame, less what the user's own terms or neighbours forbid.
OwnAction against_a_node(const Config& config, const Plan& plan, Class cls, bool shared) {
  const Action wanted = config.action(cls);
  if (wanted != Action::strike && wanted != Action::drain) return {wanted, ""};
  if (cls == Class::slow && plan.users_size)
    return {Action::fail_job, "size= is below the site's: held against no node"};
  if (cls == Class::hung && plan.users_time)
    return {Action::fail_job, "time= is below the site's: held against no node"};
  if (cls == Class::slow && shared) return {Action::fail_job, "other jobs share the node: not drained"};
  return {wanted, ""};
}

bool fails(Action action) {
  return action == Action::fail_job || action == Action::strike || action == Action::drain;
}

const char* deed(Action action) {
  switch (action) {
    case Action::drain:
      return "drain it";
    case Action::strike:
      return "count a strike";
    case Action::fail_job:
      return "fail the job";
    case Action::allow:
    case Action::warn:
      break;
  }
  return "do nothing";
}

// Whether the job fails though no node is out. Merely slow without a culprit is a path, or the site: a
// warning.
bool fails_without_culprit(const Config& config, const Plan& plan, const verdict::JobVerdict& verdict) {
  switch (verdict.cls) {
    case Class::pass:
      return false;
    case Class::slow:
      return verdict.job_at_fault || plan.consequence == option::Consequence::strict;
    case Class::mismatched:
    case Class::untested:
      return fails(config.action(verdict.cls));
    case Class::hung:
    case Class::corrupt:
    case Class::broken:
      return fails(config.action(verdict.cls)) || plan.consequence == option::Consequence::strict;
  }
  return false;
}

const verdict::NodeVerdict* find(const verdict::JobVerdict& verdict, const std::string& node) {
  for (const auto& one : verdict.nodes)
    if (one.node == node) return &one;
  return nullptr;
}

}  // namespace

std::string format_window(milliseconds window) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(window).count();
  if (minutes >= 60 && minutes % 60 == 0) return fmt::format("{} h", minutes / 60);
  return fmt::format("{} min", minutes);
}

Decision decide_actions(const Config& config, const Plan& plan, const Situation& situation) {
  Decision decision;
  const auto& verdict = situation.verdict;
  if (verdict.cls == Class::pass) return decision;
  const auto* here = find(verdict, situation.node);
  const bool to_blame = here != nullptr && here->culprit;
  for (const auto& node : verdict.nodes)
    if (node.culprit && fails(config.action(node.cls))) decision.out.push_back(node.node);

  const bool warn_only = plan.consequence == option::Consequence::warn;
  const bool observe = config.mode == Mode::observe;
  const bool strict = plan.consequence == option::Consequence::strict;
  const OwnAction own =
      to_blame ? against_a_node(config, plan, here->cls, situation.shared) : OwnAction{Action::allow, ""};

  const bool job_would_fail = !decision.out.empty() || fails_without_culprit(config, plan, verdict);
  decision.action = config.action(verdict.cls) == Action::allow ? Action::allow : Action::warn;
  if (warn_only || (observe && !strict)) {
    decision.out.clear();
    if (to_blame && fails(own.action))
      decision.done = warn_only ? "nothing is done (warn)"
                                : fmt::format("only observed, enforce would {}", deed(own.action));
    return decision;
  }

  decision.job_fails = job_would_fail;
  decision.hold = decision.out.empty();
  decision.fail_job =
      job_would_fail && (decision.out.empty() ? situation.is_root : to_blame && fails(own.action));
  if (decision.fail_job) decision.action = Action::fail_job;
  if (!to_blame) return decision;
  decision.done = own.why;
  if (observe) {
    if (fails(own.action)) decision.done = "not drained (the site only observes)";
    return decision;
  }
  if (own.action == Action::drain) {
    decision.drain = true;
    decision.action = Action::drain;
    decision.done = "drained";
  } else if (own.action == Action::strike) {
    decision.strike = true;
    decision.action = Action::strike;
    auto strikes = situation.strikes;
    strikes.push_back({situation.now, situation.job, here->cls, here->partners});
    const int count = count_strikes(strikes, situation.now, config.strike_window);
    decision.done =
        fmt::format("strike {} of {} in {}", count, config.strikes, format_window(config.strike_window));
    if (count >= config.strikes) {
      decision.drain = true;
      decision.action = Action::drain;
      decision.done = config.strikes == 1 ? "drained" : decision.done + ": drained";
    }
  }
  return decision;
}

}  // namespace nccl_check::policy
