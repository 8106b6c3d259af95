#include "policy/enforce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "policy/breaker.hpp"
#include "policy/state/drains.hpp"

namespace nccl_check::policy {
namespace {

// Kept of the time for the calls that come after the breaker's wait.
constexpr milliseconds kept_for_calls{600};

class Enforcing {
 public:
  Enforcing(const Config& config, const Decision& decision, const Case& about, const Paths& paths,
            Slurm& slurm, Deadline until)
      : config_(config), about_(about), paths_(paths), slurm_(slurm), until_(until) {
    outcome_.action = decision.action;
    outcome_.done = decision.done;
  }

  void note(const Status& status) {
    if (!status) outcome_.notes.push_back(status.error().text());
  }

  void record(DrainEvent event) {
    note(append_drain(paths_.drains(),
                      {about_.now, about_.node, event, about_.job, about_.across_nodes, about_.reason}));
  }

  // Whether the job is still to be failed afterwards.
  bool drain(const std::function<void(milliseconds)>& wait) {
    const auto drained = slurm_.drain(about_.node, about_.reason, until_);
    if (drained.got == Got::no_answer) {
      record(DrainEvent::unanswered);
      outcome_.notes.push_back(fmt::format("draining {}: no answer: {}", about_.node, drained.why));
      outcome_.done = "to be drained, but slurmctld does not answer";
      outcome_.fail_prolog = config_.no_answer == NoAnswer::fail_prolog;
      return false;
    }
    out_ = drained.value.out;
    if (drained.got == Got::refused) {
      outcome_.notes.push_back(fmt::format("{} is not drained: {}", about_.node, drained.why));
      outcome_.done = fmt::format("not drained: {}", drained.why);
      outcome_.action = verdict::Action::fail_job;
      return true;
    }
    // An earlier drain of ours counted already.
    if (!drained.value.replaced && !within_bound(wait)) return false;
    record(DrainEvent::drained);
    note(clear_strikes(paths_.strikes(), about_.node));
    outcome_.action = verdict::Action::drain;
    return true;
  }

  void fail_job(const Decision& decision, const Tell& tell) {
    JobFailure failure;
    failure.job = about_.job;
    failure.restart = about_.restart;
    failure.told_if_requeued = tell(Fate::requeued, outcome_.done);
    failure.told_if_held = tell(Fate::held, outcome_.done);
    failure.told_if_cancelled = tell(Fate::cancelled, outcome_.done);
    failure.hold = decision.hold;
    if (!out_ && std::find(decision.out.begin(), decision.out.end(), about_.node) != decision.out.end())
      failure.avoid = {about_.node};
    const auto failed = slurm_.fail_job(failure, until_);
    if (failed.ok()) {
      outcome_.fate = failed.value.fate;
      outcome_.notes.insert(outcome_.notes.end(), failed.value.notes.begin(), failed.value.notes.end());
      return;
    }
    outcome_.notes.push_back(
        fmt::format("failing job {}: {}{}", about_.job,
                    failed.got == Got::refused ? "refused: " : "no answer: ", failed.why));
    // The node is drained already, so that a prolog that fails costs nothing more and keeps the job off it.
    if (out_ && decision.drain) outcome_.fail_prolog = config_.no_answer == NoAnswer::fail_prolog;
  }

  Outcome take() { return std::move(outcome_); }

 private:
  bool within_bound(const std::function<void(milliseconds)>& wait) {
    const auto left = std::chrono::duration_cast<milliseconds>(until_.left());
    wait(std::clamp(left - kept_for_calls, milliseconds(0), breaker_wait));
    const auto reasons = slurm_.reasons(until_);
    if (!reasons.ok()) {
      outcome_.notes.push_back(fmt::format("the breaker could not count drained nodes: {}", reasons.why));
      return true;
    }
    const std::string bound = beyond_bound(config_, reasons.value, about_.node, about_.partition, about_.now);
    if (bound.empty()) return true;
    const auto back = slurm_.undrain(about_.node, until_);
    if (!back.ok()) {
      outcome_.notes.push_back(
          fmt::format("{}, but the drain of {} could not be taken back: {}", bound, about_.node, back.why));
      return true;
    }
    record(DrainEvent::taken_back);
    outcome_.done = "not drained: " + bound;
    outcome_.action = verdict::Action::warn;
    outcome_.notes.push_back(bound);
    return false;
  }

  const Config& config_;
  const Case& about_;
  const Paths& paths_;
  Slurm& slurm_;
  Deadline until_;
  Outcome outcome_;
  bool out_ = false;  // this node takes no new jobs
};

}  // namespace

void sleep_for(milliseconds time) {
  std::this_thread::sleep_for(time);
}

Outcome enforce(const Config& config, const Decision& decision, const Case& about, const Paths& paths,
                Slurm& slurm, const Tell& tell, Deadline until,
                const std::function<void(milliseconds)>& wait) {
  Enforcing enforcing(config, decision, about, paths, slurm, until);
  if (decision.strike)
    enforcing.note(add_strike(paths.strikes(), about.node,
                              {about.now, about.job, about.verdict.cls, about.verdict.partners},
                              config.strike_window));
  const bool go_on = !decision.drain || enforcing.drain(wait);
  if (go_on && decision.fail_job) enforcing.fail_job(decision, tell);
  return enforcing.take();
}

}  // namespace nccl_check::policy
