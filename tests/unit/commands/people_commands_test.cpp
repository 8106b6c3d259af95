// release, show and config check, with slurmctld's place taken.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <sstream>

#include "../policy/folder.hpp"
#include "commands/config_check.hpp"
#include "commands/release.hpp"
#include "commands/show.hpp"
#include "policy/state/drains.hpp"
#include "policy/state/recent.hpp"
#include "policy/state/results.hpp"
#include "policy/state/strikes.hpp"

namespace nccl_check::commands {
namespace {

using policy::Answer;
using policy::Got;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FakeSlurm : public policy::Slurm {
 public:
  Answer<policy::NodeState> on_node{
      Got::done, "", {{"idle", "drain"}, "nccl-check: slow, job 7", 1000, {"main"}}};
  Answer<Unit> on_undrain{Got::done, "", {}};
  int undrains = 0;

  Answer<policy::NodeState> node(const std::string&, Deadline) override { return on_node; }
  Answer<Unit> undrain(const std::string&, Deadline) override {
    ++undrains;
    return on_undrain;
  }
  Answer<std::map<std::string, std::string>> addresses(const std::vector<std::string>&, bool,
                                                       Deadline) override {
    return {};
  }
  Answer<std::map<std::string, std::vector<std::string>>> leaves(const std::vector<std::string>&,
                                                                 Deadline) override {
    return {};
  }
  Answer<std::vector<std::uint32_t>> jobs_on(const std::string&, Deadline) override { return {}; }
  Answer<policy::Drained> drain(const std::string&, const std::string&, Deadline) override { return {}; }
  Answer<policy::Reasons> reasons(Deadline) override { return {}; }
  Answer<policy::JobFailed> fail_job(const policy::JobFailure&, Deadline) override { return {}; }
};

class Commands : public testing::Test {
 protected:
  Commands() {
    paths_.state = folder_.file("state");
    paths_.run = folder_.file("run");
    paths_.disabled = folder_.file("disabled");
  }
  int release(bool force = false) {
    out_.str("");
    error_.str("");
    return commands::release({"n3", force}, paths_, slurm_, 5000, out_, error_);
  }
  int show(std::optional<std::uint32_t> job, bool json = false) {
    out_.str("");
    error_.str("");
    return commands::show({job, json}, paths_, out_, error_);
  }
  int check(const std::string& text, const std::string& slurm_program = "/bin/true") {
    out_.str("");
    error_.str("");
    return config_check({folder_.write("c.toml", text)}, paths_, slurm_program, out_, error_);
  }
  void drained(bool across) {
    ASSERT_TRUE(policy::append_drain(
        paths_.drains(), {1000, "n3", policy::DrainEvent::drained, 7, across, "nccl-check: slow, job 7"}));
  }
  void passed(bool across, std::int64_t time) {
    ASSERT_TRUE(policy::add_pass(paths_.recent(), "n3", {across, time, 8, 1, 1, {}, {{"boot", "b"}}}));
  }

  test::Folder folder_;
  policy::Paths paths_;
  FakeSlurm slurm_;
  std::ostringstream out_;
  std::ostringstream error_;
};

TEST_F(Commands, ReleaseWantsAPassAfterTheDrain) {
  drained(true);
  EXPECT_EQ(release(), 7);
  EXPECT_THAT(error_.str(), HasSubstr("no check across nodes has passed there since"));
  EXPECT_THAT(error_.str(), HasSubstr("--force"));
  passed(true, 900);
  EXPECT_EQ(release(), 7) << "that was before the drain";
  passed(false, 2000);
  EXPECT_EQ(release(), 7) << "it was not inside the node that it failed";
  EXPECT_EQ(slurm_.undrains, 0);
  passed(true, 2000);
  EXPECT_EQ(release(), 0);
  EXPECT_EQ(slurm_.undrains, 1);
  EXPECT_THAT(out_.str(), HasSubstr("n3 is released"));
  const auto drains = policy::read_drains(paths_.drains(), "n3");
  ASSERT_THAT(*drains, SizeIs(2));
  EXPECT_EQ(drains->back().event, policy::DrainEvent::released);
}

TEST_F(Commands, ReleaseElsewhereNeedsForce) {
  EXPECT_EQ(release(), 7);
  EXPECT_THAT(error_.str(), HasSubstr("this host has no record of a drain of n3"));
  EXPECT_EQ(release(true), 0);
  EXPECT_EQ(slurm_.undrains, 1);
  EXPECT_THAT(*policy::read_drains(paths_.drains(), "n3"), IsEmpty()) << "that record is on n3";
}

TEST_F(Commands, ReleaseForgetsTheStrikes) {
  drained(true);
  ASSERT_TRUE(policy::add_strike(paths_.strikes(), "n3", {1000, 7, verdict::Class::slow, {}},
                                 std::chrono::hours(24)));
  EXPECT_EQ(release(true), 0);
  EXPECT_THAT(*policy::read_strikes(paths_.strikes(), "n3"), IsEmpty());
}

TEST_F(Commands, ReleaseLeavesWhatIsNotOurs) {
  slurm_.on_node.value.reason = "disk";
  EXPECT_EQ(release(true), 7);
  EXPECT_THAT(error_.str(), HasSubstr("drained by another: 'disk'"));
  slurm_.on_node.value.words = {"idle"};
  EXPECT_EQ(release(true), 0);
  EXPECT_EQ(slurm_.undrains, 0);
  slurm_.on_node = {Got::no_answer, "slurmctld did not answer", {}};
  EXPECT_EQ(release(true), 7);
  EXPECT_THAT(error_.str(), HasSubstr("did not answer"));
}

TEST_F(Commands, ReleaseFromABrokenRecordNeedsForce) {
  drained(true);
  passed(true, 2000);
  std::ofstream(paths_.drains(), std::ios::app) << "{\n";
  EXPECT_EQ(release(), 7);
  EXPECT_THAT(error_.str(), HasSubstr("drains.jsonl:2"));
}

std::string record(unsigned job, const std::string& line) {
  return R"({"schema":"nccl-check.verdict","version":1,"job":)" + std::to_string(job) +
         R"(,"time":1700000000,"node":"n1","lines":[")" + line + R"("]})";
}

TEST_F(Commands, ShowPrintsTheLinesOfAJob) {
  std::string note;
  ASSERT_TRUE(policy::write_job_file(paths_.jobs(), 7, record(7, "nccl-check: pass n1: live"), 0, note));
  ASSERT_TRUE(policy::append_result(paths_.results(), record(6, "nccl-check: pass n1: six")));
  ASSERT_TRUE(policy::append_result(paths_.results(), record(7, "nccl-check: pass n1: old")));
  EXPECT_EQ(show(7), 0);
  EXPECT_THAT(out_.str(), HasSubstr("job 7 on n1, 2023-11-1"));
  EXPECT_THAT(out_.str(), HasSubstr("nccl-check: pass n1: live\n")) << "the job's own file comes first";
  EXPECT_EQ(show(6), 0);
  EXPECT_THAT(out_.str(), HasSubstr("six"));
  EXPECT_EQ(show(std::nullopt), 0);
  EXPECT_THAT(out_.str(), HasSubstr("old"));
  EXPECT_EQ(show(7, true), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\"schema\": \"nccl-check.verdict\""));
  EXPECT_EQ(show(5), 7);
  EXPECT_THAT(error_.str(), HasSubstr("no verdict of job 5"));
}

TEST_F(Commands, ShowRefusesWhatItCannotTrust) {
  EXPECT_EQ(show(std::nullopt), 7);
  ASSERT_TRUE(
      policy::append_result(paths_.results(), R"({"schema":"nccl-check.verdict","version":1,"job":7})"));
  EXPECT_EQ(show(7), 7);
  EXPECT_THAT(error_.str(), HasSubstr("is broken"));
  ASSERT_TRUE(policy::append_result(paths_.results(), record(8, "nccl-check: \\u001b[2J")));
  EXPECT_EQ(show(8), 0);
  EXPECT_THAT(out_.str(), HasSubstr("nccl-check: ?[2J"));
  std::string note;
  ASSERT_TRUE(policy::write_job_file(paths_.jobs(), 9, record(9, "x"), 0, note));
  ::chmod(policy::job_file(paths_.jobs(), 9).c_str(), 0666);
  EXPECT_EQ(show(9), 7);
  EXPECT_THAT(error_.str(), HasSubstr("others can write it"));
}

TEST_F(Commands, ConfigCheckNamesEveryError) {
  EXPECT_EQ(check("mode = \"x\"\n[strikes]\ncount = 0\n"), 2);
  EXPECT_THAT(error_.str(),
              HasSubstr("c.toml:1: mode: 'x' is not a word of it (allowed: observe, enforce)\n"));
  EXPECT_THAT(error_.str(), HasSubstr("c.toml:3: strikes.count: 0 is out of range (allowed: 1 to 100)\n"));
  EXPECT_THAT(error_.str(), HasSubstr("2 errors; until the file is mended, jobs are allowed"));
}

TEST_F(Commands, ConfigCheckLooksAtWhatTheGateNeeds) {
  const std::string user = "[worker]\nuser = \"nobody\"\n";
  EXPECT_EQ(check(user), 0) << error_.str();
  EXPECT_THAT(out_.str(), HasSubstr("mode observe, when requested, all_reduce of 1 GiB, deadline 15.0 s"));
  EXPECT_EQ(check("[worker]\nuser = \"no-such-user\"\n"), 2);
  EXPECT_THAT(error_.str(), HasSubstr("useradd --system"));
  EXPECT_EQ(check(user, ""), 2);
  EXPECT_THAT(error_.str(), HasSubstr("nccl-check-slurm was not found"));
  EXPECT_EQ(check(user + "[fabric]\nlibrary = \"/nonexistent.so\"\n"), 2);
  EXPECT_THAT(error_.str(), HasSubstr("there is no /nonexistent.so"));
  std::filesystem::create_directories(paths_.jobs());
  ::chmod(paths_.jobs().c_str(), 0777);
  EXPECT_EQ(check(user), 2);
  EXPECT_THAT(error_.str(), HasSubstr("run/jobs: is owned by uid"));
  ::chmod(paths_.jobs().c_str(), 0755);
  folder_.write("disabled", "");
  EXPECT_EQ(check(user), 0);
  EXPECT_THAT(out_.str(), HasSubstr("all checks on this node are switched off"));
}

}  // namespace
}  // namespace nccl_check::commands
