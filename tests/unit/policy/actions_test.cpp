#include "policy/actions.hpp"

#include <gmock/gmock.h>

namespace nccl_check::policy {
namespace {

using option::Consequence;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using verdict::Action;
using verdict::Class;

verdict::NodeVerdict culprit(const std::string& node, Class cls) {
  verdict::NodeVerdict out;
  out.node = node;
  out.cls = cls;
  out.culprit = true;
  out.partners = {"n1", "n4"};
  return out;
}

Situation at(const std::string& node, Class cls, std::vector<verdict::NodeVerdict> nodes) {
  Situation s;
  s.node = node;
  s.job = 7;
  s.is_root = node == "n1";
  s.verdict.cls = cls;
  s.verdict.nodes = std::move(nodes);
  s.now = 1'000'000;
  return s;
}

Situation slow_n3(const std::string& node) {
  return at(node, Class::slow, {culprit("n3", Class::slow)});
}
Situation corrupt_n3(const std::string& node) {
  return at(node, Class::corrupt, {culprit("n3", Class::corrupt)});
}

Config enforcing() {
  Config c;
  c.mode = Mode::enforce;
  return c;
}

Plan with(Consequence consequence) {
  Plan plan;
  plan.check = true;
  plan.consequence = consequence;
  return plan;
}
const Plan usual = with(Consequence::unset);

TEST(Actions, APassIsAllowed) {
  const auto d = decide_actions(enforcing(), usual, at("n1", Class::pass, {}));
  EXPECT_EQ(d.action, Action::allow);
  EXPECT_FALSE(d.drain || d.strike || d.fail_job || d.job_fails);
}

TEST(Actions, TheCulpritsOwnGateActsAndNoOther) {
  auto d = decide_actions(enforcing(), usual, corrupt_n3("n3"));
  EXPECT_TRUE(d.drain && d.fail_job && d.job_fails);
  EXPECT_FALSE(d.strike || d.hold);
  EXPECT_EQ(d.action, Action::drain);
  EXPECT_EQ(d.done, "drained");
  EXPECT_THAT(d.out, ElementsAre("n3"));
  for (const auto* node : {"n1", "n2", "n4"}) {
    d = decide_actions(enforcing(), usual, corrupt_n3(node));
    EXPECT_FALSE(d.drain || d.strike || d.fail_job) << node;
    EXPECT_TRUE(d.job_fails) << "they know that it does";
    EXPECT_THAT(d.out, ElementsAre("n3"));
  }
}

TEST(Actions, TheFirstStrikeFailsTheJobTheSecondDrains) {
  auto d = decide_actions(enforcing(), usual, slow_n3("n3"));
  EXPECT_TRUE(d.strike && d.fail_job);
  EXPECT_FALSE(d.drain);
  EXPECT_EQ(d.action, Action::strike);
  EXPECT_EQ(d.done, "strike 1 of 2 in 24 h");
  auto s = slow_n3("n3");
  s.strikes = {{s.now - 3600, 6, Class::slow, {"n1", "n2"}}};
  d = decide_actions(enforcing(), usual, s);
  EXPECT_TRUE(d.strike && d.drain && d.fail_job);
  EXPECT_EQ(d.action, Action::drain);
  EXPECT_EQ(d.done, "strike 2 of 2 in 24 h: drained");
}

TEST(Actions, OneStrikeDrainsWhereTheSiteSaysSo) {
  auto config = enforcing();
  config.strikes = 1;
  const auto d = decide_actions(config, usual, slow_n3("n3"));
  EXPECT_TRUE(d.drain);
  EXPECT_EQ(d.done, "drained");
}

TEST(Actions, TheSameJobRequeuedIsNoSecondStrike) {
  auto s = slow_n3("n3");
  s.strikes = {{s.now - 60, 7, Class::slow, {"n1", "n2"}}};
  EXPECT_FALSE(decide_actions(enforcing(), usual, s).drain);
}

TEST(Actions, ObservingDoesNothing) {
  const Config config;
  for (const auto& s : {slow_n3("n3"), corrupt_n3("n3"), corrupt_n3("n1")}) {
    const auto d = decide_actions(config, usual, s);
    EXPECT_FALSE(d.drain || d.strike || d.fail_job || d.job_fails);
    EXPECT_EQ(d.action, Action::warn);
    EXPECT_THAT(d.out, IsEmpty());
  }
  EXPECT_EQ(decide_actions(config, usual, corrupt_n3("n3")).done, "only observed, enforce would drain it");
}

TEST(Actions, StrictFailsTheJobWhereTheSiteOnlyObserves) {
  const auto d = decide_actions(Config{}, with(Consequence::strict), corrupt_n3("n3"));
  EXPECT_TRUE(d.fail_job && d.job_fails);
  EXPECT_FALSE(d.drain || d.strike);
  EXPECT_EQ(d.action, Action::fail_job);
  EXPECT_THAT(d.out, ElementsAre("n3")) << "so that a requeued job goes elsewhere";
}

TEST(Actions, WarnLetsEverythingRun) {
  const auto d = decide_actions(enforcing(), with(Consequence::warn), corrupt_n3("n3"));
  EXPECT_FALSE(d.drain || d.strike || d.fail_job || d.job_fails);
  EXPECT_EQ(d.action, Action::warn);
}

TEST(Actions, ASharedNodeIsNeverDrainedForSlowness) {
  auto config = enforcing();
  config.actions[static_cast<std::size_t>(Class::slow)] = Action::drain;
  auto s = slow_n3("n3");
  s.shared = true;
  auto d = decide_actions(config, usual, s);
  EXPECT_FALSE(d.drain || d.strike);
  EXPECT_TRUE(d.fail_job);
  EXPECT_THAT(d.done, HasSubstr("other jobs share the node"));
  s = corrupt_n3("n3");
  s.shared = true;
  EXPECT_TRUE(decide_actions(config, usual, s).drain) << "wrong data is not the neighbours' doing";
}

TEST(Actions, TheUsersOwnTermsAreHeldAgainstNoNode) {
  auto config = enforcing();
  config.strikes = 1;
  auto plan = usual;
  plan.users_size = true;
  auto d = decide_actions(config, plan, slow_n3("n3"));
  EXPECT_FALSE(d.drain || d.strike);
  EXPECT_TRUE(d.fail_job);
  EXPECT_TRUE(decide_actions(config, plan, at("n3", Class::hung, {culprit("n3", Class::hung)})).drain);
  plan = usual;
  plan.users_time = true;
  EXPECT_FALSE(decide_actions(config, plan, at("n3", Class::hung, {culprit("n3", Class::hung)})).drain);
  EXPECT_TRUE(decide_actions(config, plan, slow_n3("n3")).drain);
}

// busbw=: below what the user wants, and no node is to blame.
TEST(Actions, AUsersDemandFailsTheJobByTheRootAlone) {
  auto s = at("n1", Class::slow, {});
  s.verdict.job_at_fault = true;
  auto d = decide_actions(enforcing(), usual, s);
  EXPECT_TRUE(d.fail_job && d.hold) << "on the same nodes it would fail again, for ever";
  EXPECT_FALSE(d.drain || d.strike);
  s.node = "n2";
  s.is_root = false;
  d = decide_actions(enforcing(), usual, s);
  EXPECT_FALSE(d.fail_job);
  EXPECT_TRUE(d.job_fails);
}

TEST(Actions, APathIsAWarning) {
  auto slow = culprit("n3", Class::slow);
  slow.culprit = false;
  for (const auto* node : {"n1", "n3"}) {
    const auto d = decide_actions(enforcing(), usual, at(node, Class::slow, {slow}));
    EXPECT_FALSE(d.drain || d.strike || d.fail_job || d.job_fails) << node;
    EXPECT_EQ(d.action, Action::warn);
  }
  EXPECT_TRUE(decide_actions(enforcing(), with(Consequence::strict), at("n1", Class::slow, {slow})).fail_job);
}

TEST(Actions, HungOrCorruptWithoutACulpritFailsTheJobAndHoldsIt) {
  for (auto cls : {Class::hung, Class::corrupt}) {
    auto d = decide_actions(enforcing(), usual, at("n1", cls, {}));
    EXPECT_TRUE(d.fail_job && d.hold);
    EXPECT_FALSE(d.drain);
    d = decide_actions(enforcing(), usual, at("n2", cls, {}));
    EXPECT_FALSE(d.fail_job);
  }
}

TEST(Actions, MismatchedFailsTheJobUntestedDoesNot) {
  EXPECT_TRUE(decide_actions(enforcing(), usual, at("n1", Class::mismatched, {})).fail_job);
  const auto d = decide_actions(enforcing(), usual, at("n1", Class::untested, {}));
  EXPECT_FALSE(d.fail_job);
  EXPECT_EQ(d.action, Action::allow);
  EXPECT_FALSE(
      decide_actions(enforcing(), with(Consequence::strict), at("n1", Class::untested, {})).fail_job);
}

TEST(Actions, TwoCulpritsEachActForThemselves) {
  const std::vector<verdict::NodeVerdict> both{culprit("n2", Class::slow), culprit("n3", Class::corrupt)};
  const auto d2 = decide_actions(enforcing(), usual, at("n2", Class::corrupt, both));
  EXPECT_TRUE(d2.strike && d2.fail_job);
  EXPECT_FALSE(d2.drain);
  const auto d3 = decide_actions(enforcing(), usual, at("n3", Class::corrupt, both));
  EXPECT_TRUE(d3.drain && d3.fail_job);
  EXPECT_THAT(d3.out, ElementsAre("n2", "n3"));
}

TEST(Actions, WhatTheSiteAllowsIsAllowed) {
  auto config = enforcing();
  config.actions[static_cast<std::size_t>(Class::slow)] = Action::warn;
  const auto d = decide_actions(config, usual, slow_n3("n3"));
  EXPECT_FALSE(d.drain || d.strike || d.fail_job || d.job_fails);
  EXPECT_THAT(d.out, IsEmpty());
}

TEST(Strikes, DifferentJobsWithinTheWindow) {
  using std::chrono::hours;
  const std::int64_t now = 1'000'000;
  EXPECT_EQ(count_strikes({}, now, hours(1)), 0);
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {}}, {now - 10, 1, Class::slow, {}}}, now, hours(1)), 1);
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {}}, {now - 10, 2, Class::hung, {}}}, now, hours(1)), 2);
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {}}, {now - 3600, 2, Class::slow, {}}}, now, hours(1)), 1);
  EXPECT_EQ(count_strikes({{now + 5, 1, Class::slow, {}}}, now, hours(1)), 0)
      << "from a clock that was ahead";
}

TEST(Strikes, OneAndTheSamePartnerCountsOnce) {
  using std::chrono::hours;
  const std::int64_t now = 1'000'000;
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {"n1"}}, {now, 2, Class::slow, {"n1"}}}, now, hours(1)), 1);
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {"n1"}}, {now, 2, Class::slow, {"n2"}}}, now, hours(1)), 2);
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {"n1", "n2"}}, {now, 2, Class::slow, {"n1", "n2"}}}, now,
                          hours(1)),
            2);
  EXPECT_EQ(count_strikes({{now, 1, Class::slow, {"n1"}}, {now, 2, Class::slow, {}}}, now, hours(1)), 2);
}

}  // namespace
}  // namespace nccl_check::policy
