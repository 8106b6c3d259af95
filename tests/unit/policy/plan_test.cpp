#include "policy/plan.hpp"

#include <gmock/gmock.h>

namespace nccl_check::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

option::Spec spec(const std::string& text) {
  const auto parsed = option::parse(text);
  EXPECT_TRUE(std::holds_alternative<option::Spec>(parsed)) << text;
  return std::holds_alternative<option::Spec>(parsed) ? std::get<option::Spec>(parsed) : option::Spec{};
}

const JobFacts asked{"gpu", 4, true, false};
const JobFacts silent{"gpu", 4, false, false};

TEST(Plan, WhoIsChecked) {
  Config config;
  EXPECT_TRUE(decide(config, asked, {}).check);
  EXPECT_FALSE(decide(config, silent, {}).check);
  EXPECT_FALSE(decide(config, silent, {}).tell);
  config.when = When::always;
  EXPECT_TRUE(decide(config, silent, {}).check);
  config.when = When::never;
  const auto plan = decide(config, asked, {});
  EXPECT_FALSE(plan.check);
  EXPECT_TRUE(plan.tell) << "a user who asked reads why there is no check";
  EXPECT_THAT(plan.why_not, HasSubstr("never"));
}

TEST(Plan, TheKillSwitchComesFirst) {
  Config config;
  config.when = When::always;
  auto job = asked;
  job.disabled = true;
  const auto plan = decide(config, job, {});
  EXPECT_FALSE(plan.check);
  EXPECT_THAT(plan.why_not, HasSubstr("/etc/nccl-check/disabled"));
}

TEST(Plan, PartitionsNarrowItDown) {
  Config config;
  config.partitions = {"gpu"};
  EXPECT_TRUE(decide(config, asked, {}).check);
  auto other = asked;
  other.partition = "cpu";
  EXPECT_THAT(decide(config, other, {}).why_not, HasSubstr("partition cpu"));
}

TEST(Plan, Declining) {
  Config config;
  EXPECT_FALSE(decide(config, asked, spec("off")).check);
  config.when = When::always;
  EXPECT_FALSE(decide(config, asked, spec("off")).check);
  config.users_may_decline = false;
  const auto plan = decide(config, asked, spec("off"));
  EXPECT_TRUE(plan.check);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("does not let users decline")));
}

TEST(Plan, Scopes) {
  Config config;
  EXPECT_EQ(decide(config, asked, {}).scopes, (Scopes{true, true}));
  EXPECT_EQ(decide(config, asked, spec("node")).scopes, (Scopes{true, false}));
  auto alone = asked;
  alone.nodes = 1;
  EXPECT_EQ(decide(config, alone, {}).scopes, (Scopes{true, false}));
  EXPECT_THAT(decide(config, alone, spec("job")).why_not, HasSubstr("one node alone"));
  config.scopes = {true, false};
  EXPECT_THAT(decide(config, asked, spec("job")).why_not, HasSubstr("offers the scope node only"));
  const auto both = decide(config, asked, spec("node,job"));
  EXPECT_EQ(both.scopes, (Scopes{true, false}));
  EXPECT_THAT(both.notes, ElementsAre(HasSubstr("offers the scope node only")));
  EXPECT_THAT(decide(config, asked, {}).notes, IsEmpty());
}

TEST(Plan, TimeIsCapped) {
  const Config config;
  auto plan = decide(config, asked, spec("time=60s"));
  EXPECT_EQ(plan.deadline, config.deadline);
  EXPECT_FALSE(plan.users_time);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("time=60.0 s is capped at the site's 15.0 s")));
  plan = decide(config, asked, spec("time=2s"));
  EXPECT_EQ(plan.deadline, milliseconds(2000));
  EXPECT_EQ(plan.join, milliseconds(2000)) << "peers are not waited for beyond the end";
  EXPECT_TRUE(plan.users_time);
}

TEST(Plan, TheUsersOwnTerms) {
  const Config config;
  auto plan = decide(config, asked, spec("size=4K,collective=send_recv,busbw=12.5,force,strict"));
  EXPECT_EQ(plan.size, 4096U);
  EXPECT_TRUE(plan.users_size);
  EXPECT_EQ(plan.collective, verdict::Operation::send_recv);
  EXPECT_EQ(plan.wanted_busbw, 12.5);
  EXPECT_EQ(plan.reuse.count(), 0);
  EXPECT_EQ(plan.consequence, option::Consequence::strict);
  EXPECT_FALSE(decide(config, asked, spec("size=2G")).users_size);
}

TEST(Plan, AFingerprintTellsWhatDiffers) {
  Config a;
  Config b;
  b.provider = "tcp";
  const auto plan = decide(a, asked, {});
  EXPECT_EQ(fingerprint(a, plan), fingerprint(a, plan));
  EXPECT_NE(fingerprint(a, plan).at("provider"), fingerprint(b, plan).at("provider"));
  EXPECT_NE(fingerprint(a, plan).at("size"), fingerprint(a, decide(a, asked, spec("size=1M"))).at("size"));
  b = a;
  b.interfaces = {"hs1"};
  EXPECT_EQ(fingerprint(a, plan), fingerprint(b, plan)) << "interfaces' names may differ from node to node";
}

}  // namespace
}  // namespace nccl_check::policy
