#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulated_job.hpp"

namespace nccl_check::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using verdict::Class;

std::vector<std::string> culprits(const SimulatedJob& job) {
  std::vector<std::string> names;
  for (const auto& node : job.verdict.nodes)
    if (node.culprit) names.push_back(node.node);
  return names;
}

TEST(Coordinator, HealthyNodesPassInOneRound) {
  SimulatedJob job(4);
  job.run();
  ASSERT_TRUE(job.ended);
  EXPECT_EQ(job.verdict.cls, Class::pass) << job.verdict.summary;
  EXPECT_NEAR(job.verdict.busbw, 0.117, 0.001);
  EXPECT_EQ(job.pair_commands, 0);
  EXPECT_LT(job.seconds, 1.5);
  EXPECT_EQ(job.final.action, "allow");
  EXPECT_THAT(job.final.lines,
              ElementsAre(HasSubstr("pass n[1-4]: all_reduce 4 MiB on 4 nodes over hs0 (net): 0.117 GB/s")));
}

TEST(Coordinator, TheSlowNodeAloneIsAccused) {
  for (std::size_t n : {3U, 4U, 5U, 8U, 9U})
    for (std::size_t slow = 0; slow < n; ++slow) {
      SimulatedJob job(n);
      job.nodes[slow].speed = 0.025;
      job.run();
      EXPECT_EQ(job.verdict.cls, Class::slow);
      EXPECT_THAT(culprits(job), ElementsAre(job.settings.nodes[slow])) << n << ": " << job.verdict.summary;
      ASSERT_EQ(job.fail_orders.size(), 1U);
      EXPECT_TRUE(job.fail_orders[0].avoid.empty());
      EXPECT_TRUE(job.final.job_fails);
      EXPECT_GT(job.restarts, 0) << "the accused was not measured by fresh workers";
      EXPECT_LT(job.seconds, 15.2);
    }
}

TEST(Coordinator, TheLinesNameBothFiguresAndWhatWasDone) {
  SimulatedJob job(4);
  job.nodes[2].speed = 0.025;
  job.run();
  ASSERT_EQ(job.final.lines.size(), 2U);
  EXPECT_THAT(job.final.lines[0],
              testing::AllOf(HasSubstr("nccl-check: slow n3: send/recv 0.0250 GB/s with "),
                             HasSubstr("limit 0.0900 (test rule)"), HasSubstr(": drained")));
  EXPECT_EQ(job.final.lines[1], "nccl-check: the job is requeued without n3");
}

TEST(Coordinator, ANodeThatWasSlowOnceIsNotAccused) {
  SimulatedJob job(4);
  job.nodes[2].speed = 0.025;
  job.nodes[2].slow_times = 2;  // slow with two partners, healthy with fresh workers
  job.run();
  EXPECT_THAT(culprits(job), ElementsAre());
}

TEST(Coordinator, TwoSlowNodesOfEightAreBothNamed) {
  SimulatedJob job(8);
  job.nodes[2].speed = job.nodes[5].speed = 0.025;
  job.settings.budget_ms = 20'000;
  job.run();
  EXPECT_THAT(culprits(job), ElementsAre("n3", "n6")) << job.verdict.summary;
}

TEST(Coordinator, TwoNodesSlowTogetherAccuseNobody) {
  SimulatedJob job(2);
  job.nodes[1].speed = 0.025;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::slow);
  EXPECT_THAT(culprits(job), ElementsAre());
  EXPECT_TRUE(job.fail_orders.empty());
  EXPECT_EQ(job.final.action, "warn");
}

TEST(Coordinator, ASlowPathAccusesNoNode) {
  SimulatedJob job(4);
  job.slow_paths.insert({0, 1});
  job.run();
  EXPECT_THAT(culprits(job), ElementsAre());
  EXPECT_EQ(job.verdict.cls, Class::slow);
  EXPECT_THAT(job.verdict.summary, HasSubstr("n1-n2"));
}

TEST(Coordinator, AMissingPeerIsNamedAndTheOthersAreMeasured) {
  SimulatedJob job(4);
  job.nodes[1].joins = false;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::untested);
  ASSERT_EQ(job.verdict.nodes.size(), 1U);
  EXPECT_EQ(job.verdict.nodes[0].node, "n2");
  EXPECT_FALSE(job.verdict.nodes[0].culprit);
  EXPECT_THAT(job.verdict.nodes[0].detail, HasSubstr("did not join within 3.0 s"));
  EXPECT_GT(job.verdict.busbw, 0.1);
}

TEST(Coordinator, AHangWithinANodeNamesThatNode) {
  SimulatedJob job(4);
  job.nodes[3].hangs_locally = Class::hung;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::hung);
  EXPECT_THAT(culprits(job), ElementsAre("n4"));
  EXPECT_THAT(job.verdict.nodes[0].detail, HasSubstr("in all_reduce"));
  EXPECT_LT(job.seconds, 5);
}

// Opening eight GPUs takes seconds; a node that can't open its own says so at once.
TEST(Coordinator, ANodeThatFailsEarlyDoesNotKeepTheOthersFromOpening) {
  SimulatedJob job(4);
  for (auto& node : job.nodes) node.opens_after = 2.5;
  job.nodes[2].open_fails = true;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::untested);
  ASSERT_EQ(job.verdict.nodes.size(), 1U);
  EXPECT_EQ(job.verdict.nodes[0].node, "n3");
  EXPECT_THAT(job.verdict.summary, HasSubstr("on 3 nodes"));
}

TEST(Coordinator, WhereANodeIsToBlameThoseThatStillOpenAreNotNamed) {
  SimulatedJob job(4);
  for (auto& node : job.nodes) node.opens_after = 2.5;
  job.nodes[2].open_fails = true;
  job.nodes[2].open_fails_as = Class::broken;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::broken);
  ASSERT_EQ(job.verdict.nodes.size(), 1U);
  EXPECT_EQ(job.verdict.nodes[0].node, "n3");
  EXPECT_LT(job.seconds, 1);
}

TEST(Coordinator, ACrashedWorkerIsUntestedAndNobodyIsAccused) {
  SimulatedJob job(4);
  job.nodes[3].hangs_locally = Class::untested;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::untested);
  EXPECT_THAT(culprits(job), ElementsAre());
  EXPECT_EQ(job.verdict.nodes[0].node, "n4");
}

TEST(Coordinator, AHangAcrossNodesIsFoundByFreshPairs) {
  SimulatedJob job(4);
  job.nodes[2].stuck = true;
  job.settings.budget_ms = 60'000;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::hung);
  EXPECT_THAT(culprits(job), ElementsAre("n3")) << job.verdict.summary;
}

TEST(Coordinator, AGateThatFallsSilentEndsInAVerdictInTime) {
  SimulatedJob job(4);
  job.nodes[2].silent_after_ready = true;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::untested);
  EXPECT_EQ(job.verdict.nodes[0].node, "n3");
  EXPECT_THAT(culprits(job), ElementsAre());
  EXPECT_LT(job.seconds, 15.1);
}

TEST(Coordinator, WhateverHappensTheVerdictStandsByTheDeadlineAndIsNoPass) {
  for (int budget = 100; budget < 16'000; budget = budget * 5 / 4) {
    for (int kind = 0; kind < 3; ++kind) {
      SimulatedJob job(4);
      job.settings.budget_ms = budget;
      if (kind == 0) job.nodes[2].stuck = true;
      if (kind == 1) job.nodes[2].silent_after_ready = true;
      if (kind == 2) job.nodes[2].hangs_locally = Class::hung;
      job.run();
      ASSERT_TRUE(job.ended) << budget << ' ' << kind;
      EXPECT_NE(job.verdict.cls, Class::pass) << budget << ' ' << kind << ' ' << job.verdict.summary;
      EXPECT_LT(job.seconds, budget / 1e3 + 3.2) << kind;
      for (const auto& name : culprits(job)) EXPECT_EQ(name, "n3");
    }
  }
}

TEST(Coordinator, WrongDataIsLocalized) {
  SimulatedJob job(5);
  job.nodes[1].corrupt = true;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::corrupt);
  EXPECT_THAT(culprits(job), ElementsAre("n2")) << job.verdict.summary;
  EXPECT_THAT(job.verdict.nodes[0].detail, HasSubstr("element 17: got 3, expected 5"));
}

TEST(Coordinator, DifferentVersionsAreNamedBeforeAnythingIsMeasured) {
  SimulatedJob job(4);
  job.nodes[1].versions["libfabric"] = "1.11";
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::mismatched);
  EXPECT_THAT(job.verdict.summary, HasSubstr("libfabric: 1.11 on n2, 1.17 on n[1,3-4]"));
  EXPECT_EQ(job.fail_orders.size(), 1U);
  EXPECT_EQ(job.verdict.busbw, 0);
}

TEST(Coordinator, DifferentSettingsAreNamed) {
  SimulatedJob job(3);
  job.nodes[0].settings["version"] = "2";
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::mismatched);
  EXPECT_THAT(job.verdict.summary, HasSubstr("version: 1 on n[2-3], 2 on n1"));
}

TEST(Coordinator, RecentVerdictsStand) {
  SimulatedJob job(8);
  for (auto& node : job.nodes) node.participation = Participation::reuse;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::pass);
  EXPECT_THAT(job.verdict.summary, HasSubstr("a recent verdict on 8 of 8 nodes stands"));
  EXPECT_LT(job.seconds, 0.01);
}

TEST(Coordinator, OneNewNodeGetsANeighbourAsItsPartner) {
  SimulatedJob job(5);
  for (auto& node : job.nodes) node.participation = Participation::reuse;
  job.nodes[3].participation = Participation::measure;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::pass);
  EXPECT_THAT(job.verdict.summary, HasSubstr("on 2 nodes"));
}

TEST(Coordinator, ASwitchedOffNodeIsNotWaitedFor) {
  SimulatedJob job(4);
  job.nodes[0].participation = Participation::off;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::untested);
  EXPECT_EQ(job.verdict.nodes[0].detail, "because");
  EXPECT_GT(job.verdict.busbw, 0.1) << "the others were measured";
  EXPECT_LT(job.seconds, 2);
}

TEST(Coordinator, SlowMemoryIsMeasuredTwiceAndFound) {
  SimulatedJob job(1);
  job.settings.job_scope = false;
  job.nodes[0].memory = 2;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::slow);
  EXPECT_THAT(culprits(job), ElementsAre("n1"));
  EXPECT_EQ(job.restarts, 1);
}

TEST(Coordinator, OneHealthyNodePassesAlone) {
  SimulatedJob job(1);
  job.nodes[0].memory = 8;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::pass) << job.verdict.summary;
}

TEST(Coordinator, ABusyCpuIsNotTakenForASlowNetwork) {
  SimulatedJob job(4);
  job.nodes[1].starved = 0.6;
  job.run();
  EXPECT_THAT(culprits(job), ElementsAre());
  EXPECT_EQ(job.verdict.cls, Class::untested);
  EXPECT_THAT(job.verdict.summary, HasSubstr("are busy with something else"));
  // ... and does not hide a slow one: half the CPU does not explain a fifth of the speed.
  SimulatedJob slow(4);
  slow.nodes[1].starved = 0.3;
  slow.nodes[1].speed = 0.025;
  slow.run();
  EXPECT_THAT(culprits(slow), ElementsAre("n2")) << slow.verdict.summary;
}

TEST(Coordinator, AUsersOwnNumberFailsTheJobAndAccusesNobody) {
  SimulatedJob job(4);
  job.settings.wanted_busbw = 0.2;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::slow);
  EXPECT_TRUE(job.verdict.job_at_fault);
  EXPECT_THAT(culprits(job), ElementsAre());
  EXPECT_EQ(job.fail_orders.size(), 1U);
  EXPECT_THAT(job.verdict.summary, HasSubstr("the job wanted 0.200 (busbw=)"));
}

TEST(Coordinator, SendRecvMeasuresPairsAlone) {
  SimulatedJob job(4);
  job.settings.collective = verdict::Operation::send_recv;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::pass) << job.verdict.summary;
  EXPECT_NEAR(job.verdict.busbw, 0.117, 0.001);
  SimulatedJob slow(4);
  slow.settings.collective = verdict::Operation::send_recv;
  slow.nodes[1].speed = 0.025;
  slow.run();
  EXPECT_THAT(culprits(slow), ElementsAre("n2")) << slow.verdict.summary;
}

TEST(Coordinator, WithoutALimitTheFigureIsShownAndNothingIsSlow) {
  SimulatedJob job(4);
  job.limit = 0;
  job.nodes[2].speed = 0.001;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::pass);
  EXPECT_THAT(job.verdict.summary, HasSubstr("no limit is known"));
}

TEST(Coordinator, AStrikeMakesTheJobAvoidTheNode) {
  SimulatedJob job(4);
  job.nodes[2].speed = 0.025;
  job.nodes[2].drains = false;
  job.run();
  ASSERT_EQ(job.fail_orders.size(), 1U);
  EXPECT_THAT(job.fail_orders[0].avoid, ElementsAre("n3"));
}

TEST(Coordinator, ThousandsOfMissingPeersFitIntoAMessage) {
  SimulatedJob job(4000);
  for (std::size_t i = 2; i < job.nodes.size(); ++i) job.nodes[i].joins = false;
  job.run();
  EXPECT_EQ(job.verdict.cls, Class::untested);
  EXPECT_LT(encode(VerdictMessage{job.verdict, {}, 0}).size(), 128U << 10U);
  ASSERT_FALSE(job.final.lines.empty());
  EXPECT_THAT(job.final.lines[0], HasSubstr("untested n[3-4000]: did not join"));
}

TEST(Coordinator, GarbageFromANodeMakesItAMissingPeer) {
  CoordinatorSettings settings;
  settings.nodes = {"n1", "n2"};
  const auto now = Clock::now();
  Coordinator c(settings, now);
  c.message(0, MessageType::join, "{\"participation\":", now);
  c.message(1, MessageType::join, encode(Join{Participation::off, "off", {}, {}, 0}), now);
  bool told = false;
  for (auto& out : c.take_outgoing())
    if (out.type == MessageType::verdict) {
      const auto message = *decode<VerdictMessage>(out.payload);
      ASSERT_EQ(message.job.nodes.size(), 2U);
      EXPECT_THAT(message.job.nodes[0].detail, HasSubstr("a message that does not fit"));
      told = true;
    }
  EXPECT_TRUE(told);
}

TEST(Coordinator, RanksAreCountedByGpusAndTheSlowRailIsNamed) {
  SimulatedJob job(5);
  for (auto& node : job.nodes) node.gpus = 4, node.speed = 11.7;
  job.limit = 9;
  job.nodes[4].gpus = 2;
  job.nodes[2].speed = 1.17;
  job.nodes[2].slow_rail = 3;
  job.run();
  EXPECT_EQ(job.places[0].rank, 0);
  EXPECT_EQ(job.places[1].rank, 4);
  EXPECT_EQ(job.places[4].rank, 16);
  EXPECT_EQ(job.places[4].ranks, 18);
  EXPECT_EQ(job.verdict.cls, verdict::Class::slow);
  ASSERT_EQ(job.verdict.nodes.size(), 1U);
  EXPECT_EQ(job.verdict.nodes[0].node, "n3");
  EXPECT_THAT(job.verdict.nodes[0].detail, testing::HasSubstr("slowest on GPU 3: "));
  EXPECT_THAT(job.verdict.summary, testing::HasSubstr("on 18 SIMULATED H200 of 5 nodes"));
  EXPECT_THAT(job.verdict.summary, testing::HasSubstr("over IB mlx5_0:1"));
}

}  // namespace
}  // namespace nccl_check::job
