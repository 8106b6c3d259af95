#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/text.hpp"
#include "folder.hpp"
#include "policy/state/drains.hpp"
#include "policy/state/locked_file.hpp"
#include "policy/state/recent.hpp"
#include "policy/state/results.hpp"
#include "policy/state/strikes.hpp"

namespace nccl_check::policy {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verdict::Class;

class State : public testing::Test {
 protected:
  test::Folder folder_;
  std::string path_ = folder_.file("deeper/state");
};

TEST_F(State, StrikesAreKeptAndPruned) {
  EXPECT_THAT(*read_strikes(path_, "n3"), IsEmpty());
  ASSERT_TRUE(add_strike(path_, "n3", {1000, 1, Class::slow, {"n1", "n4"}}, hours(1)));
  ASSERT_TRUE(add_strike(path_, "n3", {2000, 2, Class::hung, {}}, hours(1)));
  auto strikes = read_strikes(path_, "n3");
  ASSERT_TRUE(strikes);
  ASSERT_THAT(*strikes, SizeIs(2));
  EXPECT_EQ((*strikes)[0].job, 1U);
  EXPECT_THAT((*strikes)[0].partners, ElementsAre("n1", "n4"));
  EXPECT_EQ((*strikes)[1].cls, Class::hung);
  ASSERT_TRUE(add_strike(path_, "n3", {5000, 3, Class::slow, {}}, hours(1)));
  EXPECT_THAT(*read_strikes(path_, "n3"), SizeIs(2)) << "the first is older than the window";
  ASSERT_TRUE(clear_strikes(path_, "n3"));
  EXPECT_THAT(*read_strikes(path_, "n3"), IsEmpty());
}

TEST_F(State, StrikesAreBounded) {
  for (unsigned job = 0; job < 100; ++job)
    ASSERT_TRUE(add_strike(path_, "n3", {1000 + job, job, Class::slow, std::vector<std::string>(100, "n1")},
                           hours(1)));
  EXPECT_THAT(*read_strikes(path_, "n3"), SizeIs(64));
}

TEST_F(State, ABrokenFileIsRefusedWholeAndBegunAnew) {
  const auto path = folder_.file("strikes.json");
  for (
      const auto* text :
      {"", "{", "[]", R"({"schema":"other","version":1,"node":"n3","strikes":[]})",
       R"({"schema":"nccl-check.strikes","version":2,"node":"n3","strikes":[]})",
       R"({"schema":"nccl-check.strikes","version":1,"node":"n4","strikes":[]})",
       R"({"schema":"nccl-check.strikes","version":1,"node":"n3","strikes":[3]})",
       R"({"schema":"nccl-check.strikes","version":1,"node":"n3","strikes":[{"time":1,"job":-1,"verdict":"slow","partners":[]}]})",
       R"({"schema":"nccl-check.strikes","version":1,"node":"n3","strikes":[{"time":1,"job":1,"verdict":"slowly","partners":[]}]})",
       R"({"schema":"nccl-check.strikes","version":1,"node":"n3"})"}) {
    folder_.write("strikes.json", text);
    const auto read = read_strikes(path, "n3");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().where, path);
    ASSERT_TRUE(add_strike(path, "n3", {1000, 1, Class::slow, {}}, hours(1)));
    EXPECT_THAT(*read_strikes(path, "n3"), SizeIs(1));
    EXPECT_EQ(folder_.read("strikes.json.broken"), text);
  }
  ::chmod(path.c_str(), 0666);
  EXPECT_FALSE(read_strikes(path, "n3")) << "anybody could have written it";
  folder_.write("big", std::string(most_state_bytes + 1, ' '));
  EXPECT_FALSE(read_strikes(folder_.file("big"), "n3"));
  std::filesystem::create_symlink(path, folder_.file("link"));
  EXPECT_FALSE(read_strikes(folder_.file("link"), "n3"));
}

TEST_F(State, GatesAtTheSameTimeLoseNothing) {
  std::vector<std::thread> gates;
  for (unsigned g = 0; g < 4; ++g)
    gates.emplace_back([&, g] {
      for (unsigned i = 0; i < 5; ++i)
        EXPECT_TRUE(add_strike(path_, "n3", {1000, g * 100 + i, Class::slow, {}}, hours(1)));
    });
  for (auto& gate : gates) gate.join();
  EXPECT_THAT(*read_strikes(path_, "n3"), SizeIs(20));
}

TEST_F(State, ALockThatIsHeldIsNotWaitedForForever) {
  const auto held = FileLock::take(path_, Deadline::in(Milliseconds(100)));
  ASSERT_TRUE(held);
  const auto second = FileLock::take(path_, Deadline::in(Milliseconds(50)));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("another process holds it"));
}

Pass pass(std::int64_t time) {
  return {true, time, 9, 361.2, 330, {{"size", "1024"}}, {{"boot", "b"}, {"driver", "d"}}};
}

TEST_F(State, ARecentPassIsTakenOnlyAsItWas) {
  const Facts settings{{"size", "1024"}};
  const Facts node{{"boot", "b"}, {"driver", "d"}};
  const std::vector<Pass> passes{pass(1000), pass(2000)};
  const auto found = find_pass(passes, true, settings, node, 3000, hours(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->time, 2000) << "the newest";
  EXPECT_FALSE(find_pass(passes, false, settings, node, 3000, hours(1))) << "another scope";
  EXPECT_FALSE(find_pass(passes, true, {{"size", "1"}}, node, 3000, hours(1)));
  EXPECT_FALSE(find_pass(passes, true, settings, {{"boot", "c"}, {"driver", "d"}}, 3000, hours(1)))
      << "rebooted";
  EXPECT_FALSE(find_pass(passes, true, settings, {{"boot", "b"}, {"driver", "e"}}, 3000, hours(1)));
  EXPECT_FALSE(find_pass(passes, true, settings, node, 2000 + 3600, hours(1))) << "too old";
  EXPECT_FALSE(find_pass(passes, true, settings, node, 500, hours(1))) << "from the future";
  EXPECT_FALSE(find_pass(passes, true, settings, node, 3000, hours(0))) << "reuse is off";
  Pass bootless = pass(2000);
  bootless.identity = {};
  EXPECT_FALSE(find_pass({bootless}, true, settings, {}, 3000, hours(1))) << "nothing tells of a reboot";
}

TEST_F(State, PassesAreKeptReplacedAndForgotten) {
  ASSERT_TRUE(add_pass(path_, "n3", pass(1000)));
  ASSERT_TRUE(add_pass(path_, "n3", pass(2000)));
  auto passes = read_passes(path_, "n3");
  ASSERT_TRUE(passes);
  ASSERT_THAT(*passes, SizeIs(1));
  EXPECT_EQ((*passes)[0].time, 2000);
  EXPECT_EQ((*passes)[0].busbw, 361.2);
  EXPECT_EQ((*passes)[0].identity.at("driver"), "d");
  for (int i = 0; i < 30; ++i) {
    auto other = pass(3000 + i);
    other.settings = {{"size", std::to_string(i)}};
    ASSERT_TRUE(add_pass(path_, "n3", other));
  }
  EXPECT_THAT(*read_passes(path_, "n3"), SizeIs(16));
  EXPECT_FALSE(read_passes(path_, "n4")) << "another node's file";
  ASSERT_TRUE(forget_passes(path_, "n3"));
  EXPECT_THAT(*read_passes(path_, "n3"), IsEmpty());
  EXPECT_TRUE(forget_passes(folder_.file("none"), "n3"));
}

TEST_F(State, ThisNodeIsKnownByItsBoot) {
  EXPECT_THAT(this_node().at("boot"), SizeIs(36));
  folder_.write("x", "");
  std::filesystem::create_directories(folder_.file("proc/sys/kernel/random"));
  std::filesystem::create_directories(folder_.file("proc/driver/nvidia"));
  folder_.write("proc/sys/kernel/random/boot_id", "abc\n");
  folder_.write("proc/driver/nvidia/version", "NVRM version: 580.65\nGCC version\n");
  EXPECT_EQ(this_node(folder_.path()).at("boot"), "abc");
  EXPECT_EQ(this_node(folder_.path()).at("driver"), "NVRM version: 580.65");
}

TEST_F(State, DrainsAreARecordThatOnlyGrows) {
  EXPECT_THAT(*read_drains(path_, "n3"), IsEmpty());
  ASSERT_TRUE(append_drain(path_, {100, "n3", DrainEvent::drained, 7, true, "nccl-check: slow, job 7"}));
  ASSERT_TRUE(append_drain(path_, {200, "n3", DrainEvent::released, 0, true, "nccl-check: slow, job 7"}));
  const auto drains = read_drains(path_, "n3");
  ASSERT_TRUE(drains);
  ASSERT_THAT(*drains, SizeIs(2));
  EXPECT_EQ((*drains)[0].reason, "nccl-check: slow, job 7");
  EXPECT_EQ((*drains)[1].event, DrainEvent::released);
  EXPECT_TRUE((*drains)[0].across_nodes);
  EXPECT_THAT(*read_drains(path_, "n4"), IsEmpty());
  std::ofstream(path_, std::ios::app) << "{\"cut\n";
  const auto broken = read_drains(path_, "n3");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().where, path_ + ":3");
}

std::string record(unsigned job, const std::string& more = "") {
  return R"({"schema":"nccl-check.verdict","version":1,"job":)" + std::to_string(job) + more + "}";
}

TEST_F(State, TheNewestResultOfAJobIsFound) {
  int bad = 0;
  EXPECT_FALSE(*find_result(path_, 7, bad));
  ASSERT_TRUE(append_result(path_, record(7, ",\"n\":1")));
  ASSERT_TRUE(append_result(path_, record(8)));
  ASSERT_TRUE(append_result(path_, record(7, ",\"n\":2")));
  ASSERT_TRUE(append_result(path_, record(9)));
  EXPECT_EQ(**find_result(path_, 7, bad), record(7, ",\"n\":2"));
  EXPECT_EQ(**find_result(path_, std::nullopt, bad), record(9));
  EXPECT_EQ(bad, 0);
  std::ofstream(path_, std::ios::app) << "not json\n{\"schema\":\"nccl-check.verdict\",\"job\":7";
  EXPECT_EQ(**find_result(path_, 7, bad), record(7, ",\"n\":2"));
  EXPECT_EQ(bad, 2);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U) << "other users' jobs are in it";
}

TEST_F(State, ARecordMustBeOneBoundedLine) {
  EXPECT_FALSE(append_result(path_, ""));
  EXPECT_FALSE(append_result(path_, "{}\n{}"));
  EXPECT_FALSE(append_result(path_, std::string(most_record_bytes + 1, 'x')));
}

TEST_F(State, ResultsAreRotatedBySize) {
  ASSERT_TRUE(append_result(path_, record(1)));
  std::filesystem::resize_file(path_, most_results_bytes - 10);
  ASSERT_TRUE(append_result(path_, record(2)));
  EXPECT_EQ(std::filesystem::file_size(path_ + ".1"), most_results_bytes - 10);
  EXPECT_EQ(std::filesystem::file_size(path_), record(2).size() + 1);
}

TEST_F(State, AJobsFileIsItsOwnersToRead) {
  std::string note;
  const auto folder = folder_.file("jobs");
  ASSERT_TRUE(write_job_file(folder, 7, record(7), 65534, note));
  struct stat info {};
  ASSERT_EQ(::stat(job_file(folder, 7).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0007U, 0U) << "nobody else's";
  if (::geteuid() == 0 && note.empty()) {
    // As that user: no other way to see what the access list grants.
    ::chmod(folder_.path().c_str(), 0755);
    const auto command = "setpriv --reuid 65534 --clear-groups cat " + job_file(folder, 7) + " >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0);
    const auto other = "setpriv --reuid 65533 --clear-groups cat " + job_file(folder, 7) + " >/dev/null 2>&1";
    EXPECT_NE(std::system(other.c_str()), 0);
  }
  EXPECT_TRUE(remove_job_file(folder, 7));
  EXPECT_TRUE(remove_job_file(folder, 7)) << "gone is gone";
}

TEST_F(State, LeftOverJobFilesAreSwept) {
  const auto folder = folder_.file("jobs");
  std::string note;
  for (unsigned job : {7U, 8U}) ASSERT_TRUE(write_job_file(folder, job, record(job), 0, note));
  folder_.write("jobs/9.json.aB3xYz", "");
  folder_.write("jobs/notes.txt", "");
  for (const auto* name : {"jobs/7.json", "jobs/9.json.aB3xYz", "jobs/notes.txt"})
    std::filesystem::last_write_time(folder_.file(name),
                                     std::filesystem::file_time_type::clock::now() - hours(100));
  EXPECT_EQ(sweep_job_files(folder, hours(48)), 2);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("jobs/8.json")));
  EXPECT_TRUE(std::filesystem::exists(folder_.file("jobs/notes.txt"))) << "not ours";
  EXPECT_EQ(sweep_job_files(folder_.file("none"), hours(1)), 0);
}

}  // namespace
}  // namespace nccl_check::policy
