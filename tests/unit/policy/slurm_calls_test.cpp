#include "policy/slurm_calls.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "folder.hpp"

namespace nccl_check::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Wire, DoneRefusedAndNoAnswerAreToldApart) {
  EXPECT_EQ(wire::drain(R"({"done":true,"replaced":true})").got, Got::done);
  EXPECT_TRUE(wire::drain(R"({"done":true,"replaced":true})").value.replaced);
  EXPECT_TRUE(wire::drain(R"({"done":true,"replaced":false})").value.out);
  const auto refused =
      wire::drain(R"({"answered":true,"done":false,"out":true,"why":"n4 has a reason of another: 'x'"})");
  EXPECT_EQ(refused.got, Got::refused);
  EXPECT_TRUE(refused.value.out);
  EXPECT_EQ(refused.why, "n4 has a reason of another: 'x'");
  const auto lost = wire::drain(R"({"answered":false,"code":5004,"done":false,"why":"timed out"})");
  EXPECT_EQ(lost.got, Got::no_answer);
  EXPECT_EQ(lost.why, "timed out");
}

TEST(Wire, WhatIsNotAsExpectedIsNoAnswer) {
  for (const auto* text : {"", "{", "[]", "3", "null", "{}", R"({"done":3})", R"({"done":true)", "\xff"}) {
    EXPECT_EQ(wire::drain(text).got, Got::no_answer) << text;
    EXPECT_EQ(wire::node(text).got, Got::no_answer) << text;
    EXPECT_EQ(wire::reasons(text).got, Got::no_answer) << text;
    EXPECT_EQ(wire::fail_job(text).got, Got::no_answer) << text;
    EXPECT_EQ(wire::addresses(text).got, Got::no_answer) << text;
    EXPECT_EQ(wire::leaves(text).got, Got::no_answer) << text;
    EXPECT_EQ(wire::jobs_on(text).got, Got::no_answer) << text;
  }
  EXPECT_EQ(wire::jobs_on(R"({"jobs":[-1]})").got, Got::no_answer);
  EXPECT_EQ(wire::jobs_on(R"({"jobs":[4294967296]})").got, Got::no_answer);
  EXPECT_EQ(wire::fail_job(R"({"outcome":"runs","told":true,"avoided":false,"notes":[]})").got,
            Got::no_answer);
  EXPECT_EQ(wire::reasons(R"({"nodes":[{"node":"n1"}],"partitions":{}})").got, Got::no_answer);
  EXPECT_EQ(wire::reasons(R"({"nodes":[],"partitions":{"a":-1}})").got, Got::no_answer);
}

TEST(Wire, Values) {
  const auto node = wire::node(
      R"({"node":"n3","partitions":["main"],"reason":"nccl-check: x","reason_time":17,"reason_uid":0,"state":["idle","drain"]})");
  ASSERT_TRUE(node.ok());
  EXPECT_TRUE(node.value.is("drain"));
  EXPECT_FALSE(node.value.is("down"));
  EXPECT_EQ(node.value.reason_time, 17);
  const auto reasons = wire::reasons(
      R"({"nodes":[{"node":"n3","partitions":["main"],"reason":"nccl-check: x","time":5}],"partitions":{"main":6}})");
  ASSERT_TRUE(reasons.ok());
  EXPECT_EQ(reasons.value.nodes.at(0).time, 5);
  EXPECT_EQ(reasons.value.partitions.at("main"), 6);
  const auto failed = wire::fail_job(R"({"avoided":true,"notes":["a"],"outcome":"requeued","told":true})");
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed.value.fate, Fate::requeued);
  EXPECT_THAT(failed.value.notes, ElementsAre("a"));
  EXPECT_EQ(wire::addresses(R"({"addresses":{"n1":"10.0.0.1"},"unknown":["x"]})").value.at("n1"), "10.0.0.1");
  EXPECT_THAT(wire::leaves(R"({"leaves":{"s1":["n1","n2"]}})").value.at("s1"), ElementsAre("n1", "n2"));
  EXPECT_THAT(wire::leaves(R"({"leaves":{}})").value, IsEmpty());
  EXPECT_THAT(wire::jobs_on(R"({"jobs":[12,14]})").value, ElementsAre(12, 14));
}

// The program's place is taken by a script.
class Child : public testing::Test {
 protected:
  std::unique_ptr<Slurm> slurm(const std::string& script) {
    const auto path = folder_.write("slurm", "#!/bin/sh\n" + script);
    ::chmod(path.c_str(), 0755);
    return make_slurm(path, {"PATH=/usr/bin:/bin"});
  }
  Deadline soon() { return Deadline::in(Milliseconds(5000)); }
  test::Folder folder_;
};

TEST_F(Child, GetsItsArgumentsWhole) {
  auto s = slurm("for a in \"$@\"; do echo \"<$a>\"; done > " + folder_.file("args") +
                 "\necho '{\"outcome\":\"gone\",\"told\":false,\"avoided\":false,\"notes\":[]}'\n");
  JobFailure failure;
  failure.job = 12;
  failure.restart = 2;
  failure.told_if_requeued = "nccl-check: slow n3\n--hold $(id) 'x'";
  failure.avoid = {"n1", "n2"};
  EXPECT_TRUE(s->fail_job(failure, soon()).ok());
  EXPECT_EQ(folder_.read("args"),
            "<fail-job>\n<12>\n<--restart>\n<2>\n<--requeued=nccl-check: slow n3\n--hold $(id) "
            "'x'>\n<--avoid=n[1-2]>\n");
}

TEST_F(Child, LongNodeListsAreSeveralArguments) {
  auto s = slurm("echo $# > " + folder_.file("count") + "\necho '{\"leaves\":{}}'\n");
  std::vector<std::string> nodes;
  for (int i = 0; i < 2500; ++i) nodes.push_back("host" + std::to_string(i * 7) + "-x");
  EXPECT_TRUE(s->leaves(nodes, soon()).ok());
  EXPECT_EQ(folder_.read("count"), "4\n");
}

TEST_F(Child, ThatHangsIsEndedByTheDeadline) {
  auto s = slurm("exec sleep 60\n");
  const auto start = Clock::now();
  const auto answer = s->node("n1", Deadline::in(Milliseconds(200)));
  EXPECT_EQ(answer.got, Got::no_answer);
  EXPECT_THAT(answer.why, HasSubstr("in time"));
  EXPECT_LT(Clock::now() - start, Milliseconds(1500));
}

TEST_F(Child, ThatFailsSaysWhy) {
  const auto answer = slurm("echo 'fatal: no slurm.conf' >&2; exit 1\n")->node("n1", soon());
  EXPECT_EQ(answer.got, Got::no_answer);
  EXPECT_THAT(answer.why, HasSubstr("exit status 1"));
  EXPECT_THAT(answer.why, HasSubstr("fatal: no slurm.conf"));
  EXPECT_THAT(slurm("kill -9 $$\n")->node("n1", soon()).why, HasSubstr("signal 9"));
  EXPECT_EQ(
      slurm("echo '{\"done\":false,\"answered\":false,\"why\":\"x\"}'; exit 3\n")->node("n1", soon()).got,
      Got::no_answer);
  EXPECT_EQ(make_slurm("", {})->node("n1", soon()).got, Got::no_answer);
  EXPECT_EQ(make_slurm("/nonexistent", {})->node("n1", soon()).got, Got::no_answer);
}

TEST(Environment, OnlySlurmConfIsPassedOn) {
  const char* environment[] = {"SLURM_CONF=/a", "LD_PRELOAD=/evil.so", "SPANK_X=1", nullptr};
  EXPECT_THAT(slurm_environment(environment),
              ElementsAre("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SLURM_CONF=/a"));
}

}  // namespace
}  // namespace nccl_check::policy
