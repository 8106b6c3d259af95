#include "policy/enforce.hpp"

#include <gmock/gmock.h>

#include "folder.hpp"
#include "policy/state/drains.hpp"
#include "policy/state/strikes.hpp"

namespace nccl_check::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verdict::Action;

// slurmctld, as far as one node's gate sees it. Each call is written down.
class FakeSlurm : public Slurm {
 public:
  std::vector<std::string> calls;
  Answer<Drained> on_drain{Got::done, "", {false, true}};
  Answer<Unit> on_undrain{Got::done, "", {}};
  Answer<Reasons> on_reasons{Got::done, "", {{{"n3", "nccl-check: x", 1'000'000, {"main"}}}, {{"main", 8}}}};
  Answer<JobFailed> on_fail_job{Got::done, "", {Fate::requeued, true, false, {}}};
  JobFailure failure;

  Answer<std::map<std::string, std::string>> addresses(const std::vector<std::string>&, bool,
                                                       Deadline) override {
    return {};
  }
  Answer<std::map<std::string, std::vector<std::string>>> leaves(const std::vector<std::string>&,
                                                                 Deadline) override {
    return {};
  }
  Answer<NodeState> node(const std::string&, Deadline) override { return {}; }
  Answer<std::vector<std::uint32_t>> jobs_on(const std::string&, Deadline) override { return {}; }
  Answer<Drained> drain(const std::string& node, const std::string& reason, Deadline) override {
    calls.push_back("drain " + node + " " + reason);
    return on_drain;
  }
  Answer<Unit> undrain(const std::string& node, Deadline) override {
    calls.push_back("undrain " + node);
    return on_undrain;
  }
  Answer<Reasons> reasons(Deadline) override {
    calls.emplace_back("reasons");
    return on_reasons;
  }
  Answer<JobFailed> fail_job(const JobFailure& f, Deadline) override {
    calls.push_back("fail-job " + std::to_string(f.job));
    failure = f;
    return on_fail_job;
  }
};

class Enforce : public testing::Test {
 protected:
  Enforce() {
    paths_.state = folder_.path();
    config_.mode = Mode::enforce;
    case_.node = "n3";
    case_.partition = "main";
    case_.job = 7;
    case_.restart = 1;
    case_.across_nodes = true;
    case_.reason = "nccl-check: slow, job 7";
    case_.verdict.node = "n3";
    case_.verdict.cls = verdict::Class::slow;
    case_.verdict.partners = {"n1", "n4"};
    case_.now = 1'000'000;
    drain_.drain = drain_.fail_job = drain_.job_fails = true;
    drain_.action = Action::drain;
    drain_.out = {"n3"};
    drain_.done = "drained";
    strike_ = drain_;
    strike_.drain = false;
    strike_.strike = true;
    strike_.action = Action::strike;
    strike_.done = "strike 1 of 2 in 24 h";
  }

  Outcome run(const Decision& decision) {
    return enforce(
        config_, decision, case_, paths_, slurm_,
        [](Fate fate, const std::string& done) { return std::string(name(fate)) + "/" + done; },
        Deadline::in(Milliseconds(5000)), [this](milliseconds time) { waited_ += time; });
  }
  std::vector<DrainEvent> events() {
    std::vector<DrainEvent> out;
    const auto drains = read_drains(paths_.drains(), "n3");
    EXPECT_TRUE(drains);
    if (drains)
      for (const auto& d : *drains) out.push_back(d.event);
    return out;
  }
  std::size_t strikes() { return read_strikes(paths_.strikes(), "n3")->size(); }

  test::Folder folder_;
  Paths paths_;
  Config config_;
  Case case_;
  Decision drain_;
  Decision strike_;
  FakeSlurm slurm_;
  milliseconds waited_{0};
};

TEST_F(Enforce, DrainsCountsAgainThenFailsTheJob) {
  const auto outcome = run(drain_);
  EXPECT_THAT(slurm_.calls, ElementsAre("drain n3 nccl-check: slow, job 7", "reasons", "fail-job 7"));
  EXPECT_EQ(waited_, breaker_wait);
  EXPECT_EQ(outcome.action, Action::drain);
  EXPECT_EQ(outcome.fate, Fate::requeued);
  EXPECT_FALSE(outcome.fail_prolog);
  EXPECT_THAT(outcome.notes, IsEmpty());
  EXPECT_EQ(slurm_.failure.restart, 1U);
  EXPECT_THAT(slurm_.failure.avoid, IsEmpty()) << "a drained node needs no exclusion";
  EXPECT_EQ(slurm_.failure.told_if_requeued, "requeued/drained");
  EXPECT_EQ(slurm_.failure.told_if_cancelled, "cancelled/drained");
  EXPECT_THAT(events(), ElementsAre(DrainEvent::drained));
}

TEST_F(Enforce, AStrikeIsRecordedAndTheJobGoesElsewhere) {
  const auto outcome = run(strike_);
  EXPECT_THAT(slurm_.calls, ElementsAre("fail-job 7"));
  EXPECT_THAT(slurm_.failure.avoid, ElementsAre("n3"));
  EXPECT_EQ(outcome.action, Action::strike);
  EXPECT_EQ(strikes(), 1U);
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(Enforce, ADrainServesTheStrikes) {
  run(strike_);
  strike_.drain = true;
  case_.job = 8;
  run(strike_);
  EXPECT_EQ(strikes(), 0U);
}

TEST_F(Enforce, BeyondTheBoundTheDrainIsTakenBackAndTheJobRuns) {
  config_.breaker_nodes = 1;
  slurm_.on_reasons.value.nodes.push_back({"n1", "nccl-check: y", 999'999, {"main"}});
  const auto outcome = run(drain_);
  EXPECT_THAT(slurm_.calls, ElementsAre(HasSubstr("drain n3"), "reasons", "undrain n3"));
  EXPECT_EQ(outcome.action, Action::warn);
  EXPECT_EQ(outcome.fate, Fate::runs);
  EXPECT_THAT(outcome.done, HasSubstr("not drained: the breaker allows 1 drained in 24 h"));
  EXPECT_THAT(events(), ElementsAre(DrainEvent::taken_back));
}

TEST_F(Enforce, AnEarlierDrainOfOursIsNotTakenBack) {
  config_.breaker_nodes = 1;
  slurm_.on_drain.value.replaced = true;
  slurm_.on_reasons.value.nodes.push_back({"n1", "nccl-check: y", 999'999, {"main"}});
  run(drain_);
  EXPECT_THAT(slurm_.calls, ElementsAre(HasSubstr("drain n3"), "fail-job 7"));
}

TEST_F(Enforce, ADrainThatCannotBeTakenBackStays) {
  config_.breaker_nodes = 1;
  slurm_.on_reasons.value.nodes.push_back({"n1", "nccl-check: y", 999'999, {"main"}});
  slurm_.on_undrain = {Got::no_answer, "gone silent", {}};
  const auto outcome = run(drain_);
  EXPECT_EQ(outcome.action, Action::drain);
  EXPECT_THAT(outcome.notes, ElementsAre(HasSubstr("could not be taken back: gone silent")));
}

TEST_F(Enforce, AForeignReasonIsLeftAndTheJobFailsAllTheSame) {
  slurm_.on_drain = {Got::refused, "n3 has a reason of another: 'disk'", {false, true}};
  auto outcome = run(drain_);
  EXPECT_THAT(slurm_.calls, ElementsAre(HasSubstr("drain n3"), "fail-job 7"));
  EXPECT_EQ(outcome.action, Action::fail_job);
  EXPECT_THAT(outcome.done, HasSubstr("'disk'"));
  EXPECT_THAT(slurm_.failure.avoid, IsEmpty()) << "it is drained, by another";
  slurm_.on_drain.value.out = false;
  run(drain_);
  EXPECT_THAT(slurm_.failure.avoid, ElementsAre("n3"));
}

TEST_F(Enforce, WithoutAnAnswerToTheDrainThePrologFails) {
  slurm_.on_drain = {Got::no_answer, "slurmctld did not answer 'drain' in time", {}};
  auto outcome = run(drain_);
  EXPECT_THAT(slurm_.calls, SizeIs(1)) << "nothing more is asked of one who does not answer";
  EXPECT_TRUE(outcome.fail_prolog);
  EXPECT_THAT(events(), ElementsAre(DrainEvent::unanswered));
  config_.no_answer = NoAnswer::allow;
  EXPECT_FALSE(run(drain_).fail_prolog);
}

TEST_F(Enforce, WithoutAnAnswerToTheStrikeTheJobRuns) {
  slurm_.on_fail_job = {Got::no_answer, "silent", {}};
  const auto outcome = run(strike_);
  EXPECT_FALSE(outcome.fail_prolog) << "that would drain the node, which the policy does not want yet";
  EXPECT_EQ(outcome.fate, Fate::runs);
  EXPECT_THAT(outcome.notes, ElementsAre(HasSubstr("no answer: silent")));
}

TEST_F(Enforce, ADrainedNodeKeepsTheJobOffByItsProlog) {
  slurm_.on_fail_job = {Got::no_answer, "silent", {}};
  EXPECT_TRUE(run(drain_).fail_prolog);
}

TEST_F(Enforce, WhereNobodyIsToBlameTheJobIsHeld) {
  Decision decision;
  decision.fail_job = decision.job_fails = decision.hold = true;
  decision.action = Action::fail_job;
  slurm_.on_fail_job.value.fate = Fate::held;
  const auto outcome = run(decision);
  EXPECT_TRUE(slurm_.failure.hold);
  EXPECT_THAT(slurm_.failure.avoid, IsEmpty());
  EXPECT_EQ(outcome.fate, Fate::held);
}

TEST_F(Enforce, NothingToDoAsksNothing) {
  run(Decision{});
  EXPECT_THAT(slurm_.calls, IsEmpty());
}

}  // namespace
}  // namespace nccl_check::policy
