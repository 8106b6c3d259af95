// The plugin as srun, sbatch, slurmd and slurmstepd see it: loaded, and called hook by hook.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fake_slurm.hpp"
#include "private_run.hpp"

namespace nccl_check::fake {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using Json = nlohmann::json;

constexpr const char* inherited = "SLURM_SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check";
constexpr const char* asked_inside = "SLURM_NCCL_CHECK_ASKED";

std::string job_file(std::uint32_t job) {
  return "/run/nccl-check/jobs/" + std::to_string(job) + ".json";
}

Json record(std::uint32_t job) {
  return {{"schema", "nccl-check.verdict"},
          {"version", 1},
          {"job", job},
          {"step", nullptr},
          {"restart", 0},
          {"uid", ::getuid()},
          {"node", "n1"},
          {"nodes", "n[1-4]"},
          {"spec", ""},
          {"verdict", "pass"},
          {"job_fails", false},
          {"busbw", 0.117},
          {"lines", {"nccl-check: pass n[1-4]: all_reduce"}}};
}

void write(const std::string& path, const std::string& text, mode_t mode = 0640) {
  ::unlink(path.c_str());
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

// What `body` writes to stderr.
template <class Body>
std::string stderr_of(Body&& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

class Hooks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const std::string failed = enter_private_run();
    ASSERT_EQ(failed, "") << "the tests need a mount namespace: run them as root";
  }
  void SetUp() override {
    reset();
    slurm().user = ::getuid();
    slurm().group = ::getgid();
    for (const char* name : {inherited, asked_inside, "SLURM_JOB_ID"}) ::unsetenv(name);
  }
  void TearDown() override { ::unlink(job_file(slurm().job).c_str()); }

  static const Plugin& plugin() {
    static const Plugin one(NCCL_CHECK_TEST_PLUGIN);
    return one;
  }
  static int option(const char* name, const char* argument, bool remote) {
    return slurm().options.at(name)(0, argument, remote ? 1 : 0);
  }

  // slurmstepd up to the tasks' fork; gives what the user has read by then. `spec` as Slurm would hand it
  // over.
  static std::string begin_step(const char* spec, bool given, std::vector<std::string> arguments = {}) {
    slurm().context = S_CTX_REMOTE;
    EXPECT_EQ(plugin().call("slurm_spank_init", std::move(arguments)), 0);
    if (given) {
      EXPECT_EQ(option("nccl-check", spec, true), 0);
      EXPECT_EQ(option("nccl-check", spec, true), 0);  // before 24.05 it fires twice
    }
    EXPECT_EQ(plugin().call("slurm_spank_init_post_opt"), 0);
    return stderr_of([] { EXPECT_EQ(plugin().call("slurm_spank_user_init"), 0); });
  }
  static std::string begin_step() { return begin_step(nullptr, false); }
};

TEST_F(Hooks, SubmitSideRefusesABadWordAndPointsAtIt) {
  for (const auto context : {S_CTX_LOCAL, S_CTX_ALLOCATOR}) {
    reset();
    slurm().context = context;
    ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
    EXPECT_EQ(option("nccl-check", "node,strct", false), -1);
    EXPECT_THAT(slurm().log,
                AllOf(Contains("tell: nccl-check: 'strct' is not a word of --nccl-check:"),
                      Contains("tell:   --nccl-check=node,strct"),
                      Contains("tell:                     ^^^^^"), Contains(HasSubstr("allowed"))));
    EXPECT_EQ(option("nccl-env", "on", false), -1);
    EXPECT_TRUE(slurm().logged("allowed: auto, off, show"));
  }
}

TEST_F(Hooks, SubmitSideTakesEverySpellingOfABareOption) {
  slurm().context = S_CTX_ALLOCATOR;
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  for (const char* bare : {static_cast<const char*>(nullptr), "", "(null)"})
    EXPECT_EQ(option("nccl-check", bare, false), 0);
  EXPECT_EQ(plugin().call("slurm_spank_init_post_opt"), 0);
  EXPECT_THAT(slurm().log, IsEmpty());
}

TEST_F(Hooks, HelpPrintsTheTableAndSubmitsNothing) {
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  testing::internal::CaptureStdout();
  EXPECT_EQ(option("nccl-check", "help", false), -1);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("busbw=N"), HasSubstr("Nothing is submitted")));
}

TEST_F(Hooks, EnvironmentOptionDoesNotPretend) {
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  EXPECT_EQ(option("nccl-env", "off", false), 0);
  EXPECT_THAT(slurm().log, IsEmpty());
  EXPECT_EQ(option("nccl-env", "auto", false), 0);
  EXPECT_EQ(option("nccl-env", "auto", false), 0);
  EXPECT_THAT(slurm().log, testing::ElementsAre(HasSubstr("sets no NCCL variables yet")));
}

TEST_F(Hooks, SrunInsideAJobTellsAskedFromInherited) {
  ::setenv("SLURM_JOB_ID", "7", 1);
  ::setenv(inherited, "warn", 1);
  ::setenv("_SLURM_SPANK_OPTION_nccl_check_nccl_check", "warn", 1);
  slurm().context = S_CTX_LOCAL;
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  EXPECT_EQ(::getenv(inherited), nullptr) << "so that Slurm hands on only what this srun was given";
  EXPECT_EQ(::getenv("_SLURM_SPANK_OPTION_nccl_check_nccl_check"), nullptr);
  ASSERT_EQ(plugin().call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(::getenv(asked_inside), nullptr);
  EXPECT_EQ(option("nccl-check", "force", false), 0);
  ASSERT_EQ(plugin().call("slurm_spank_init_post_opt"), 0);
  EXPECT_STREQ(::getenv(asked_inside), "1");
}

TEST_F(Hooks, AnAllocatingSrunKeepsWhatTheEnvironmentSays) {
  ::setenv(inherited, "warn", 1);
  ::setenv(asked_inside, "1", 1);
  slurm().context = S_CTX_LOCAL;
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  EXPECT_STREQ(::getenv(inherited), "warn");
  EXPECT_EQ(option("nccl-check", "warn", false), 0);
  ASSERT_EQ(plugin().call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(::getenv(asked_inside), nullptr);
}

TEST_F(Hooks, WrongPlugstackArgumentsStopSubmittingAndNothingElse) {
  for (const char* wrong : {"confg=/x", "config=relative", "config", "program=", ""}) {
    for (const auto context : {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE, S_CTX_SLURMD}) {
      reset();
      slurm().context = context;
      const bool submits = context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR;
      EXPECT_EQ(plugin().call("slurm_spank_init", {wrong}), submits ? -1 : 0) << wrong << " in " << context;
      EXPECT_TRUE(slurm().logged(std::string("'") + wrong + "'")) << wrong << " in " << context;
      EXPECT_TRUE(slurm().logged("allowed: config=PATH, program=PATH"));
    }
  }
}

TEST_F(Hooks, AWrongPlugstackOnTheNodeIsToldToWhoAsked) {
  EXPECT_THAT(begin_step("strict", true, {"confg=/x"}), HasSubstr("nccl-check: untested"));
  EXPECT_EQ(begin_step(nullptr, false, {"confg=/x"}), "");
}

TEST_F(Hooks, AStepOfAJobWithoutTheOptionSeesNothing) {
  slurm().environment["NCCL_CHECK_VERDICT"] = "stale";
  slurm().environment["NCCL_CHECK_FILE"] = "/stale";
  EXPECT_EQ(begin_step(), "");
  EXPECT_THAT(slurm().log, IsEmpty());
  EXPECT_THAT(slurm().environment, IsEmpty()) << "another host's verdict must not stay";
}

TEST_F(Hooks, TheVerdictIsShownOnceAndSetForEveryStep) {
  const auto path = job_file(slurm().job);
  write(path, record(slurm().job).dump());
  slurm().step = SLURM_EXTERN_CONT;
  EXPECT_EQ(begin_step(), "");
  slurm().step = SLURM_BATCH_SCRIPT;
  EXPECT_EQ(begin_step("", true), "nccl-check: pass n[1-4]: all_reduce\n");
  for (const std::uint32_t inner : {0U, 1U}) {
    slurm().step = inner;
    slurm().environment.clear();
    EXPECT_EQ(begin_step(), "");
    EXPECT_THAT(slurm().environment, testing::UnorderedElementsAre(Pair("NCCL_CHECK_VERDICT", "pass"),
                                                                   Pair("NCCL_CHECK_BUSBW", "0.117"),
                                                                   Pair("NCCL_CHECK_FILE", path)));
    EXPECT_EQ(plugin().call("slurm_spank_task_init"), 0);
  }
  EXPECT_THAT(slurm().log, IsEmpty());
}

TEST_F(Hooks, ANewVerdictOfTheSameJobIsShownAgain) {
  write(job_file(slurm().job), record(slurm().job).dump());
  EXPECT_NE(begin_step(), "");
  EXPECT_EQ(begin_step(), "");
  write(job_file(slurm().job), record(slurm().job).dump());
  EXPECT_NE(begin_step(), "");
}

TEST_F(Hooks, OnlyTheFirstNodeShowsTheVerdict) {
  auto other = record(slurm().job);
  other["node"] = "n2";
  write(job_file(slurm().job), other.dump());
  EXPECT_EQ(begin_step(), "");
  EXPECT_EQ(slurm().environment["NCCL_CHECK_VERDICT"], "pass");
}

TEST_F(Hooks, AFileThatIsNotTheGatesIsRefusedWithAReason) {
  struct Case {
    const char* name;
    std::string text;
    mode_t mode;
    const char* reason;
  };
  const auto good = record(slurm().job);
  const auto with = [&](const char* key, const Json& value) {
    auto changed = good;
    changed[key] = value;
    return changed.dump();
  };
  const Case cases[] = {
      {"writable by others", good.dump(), 0666, "others can write it"},
      {"another job's", with("job", slurm().job + 1), 0640, "'job'"},
      {"another user's", with("uid", ::getuid() + 1), 0640, "'uid'"},
      {"a step's", with("step", 3), 0640, "'step'"},
      {"another schema", with("schema", "nccl-check.report"), 0640, "'schema'"},
      {"a later version", with("version", 2), 0640, "'version'"},
      {"cut off", good.dump().substr(0, 100), 0640, "cut off"},
      {"too large", good.dump() + std::string(70'000, ' '), 0640, "at most 65536"},
  };
  for (const auto& one : cases) {
    slurm().log.clear();
    slurm().environment.clear();
    write(job_file(slurm().job), one.text, one.mode);
    EXPECT_EQ(begin_step(), "") << one.name;
    EXPECT_TRUE(slurm().logged(one.reason)) << one.name << ": " << slurm().all_log();
    EXPECT_THAT(slurm().environment, IsEmpty()) << one.name;
  }
  const auto path = job_file(slurm().job);
  write(path + ".real", good.dump());
  ::unlink(path.c_str());
  ASSERT_EQ(::symlink((path + ".real").c_str(), path.c_str()), 0);
  EXPECT_EQ(begin_step(), "");
  EXPECT_TRUE(slurm().logged("symbolic link"));
  ::unlink((path + ".real").c_str());
}

TEST_F(Hooks, AQuestionThatNobodyAnsweredIsSaid) {
  slurm().step = SLURM_BATCH_SCRIPT;
  EXPECT_THAT(begin_step("(null)", true), HasSubstr("untested: no check was made"));
  slurm().step = 0;
  EXPECT_THAT(begin_step(nullptr, true), HasSubstr("untested: no check was made"));
  EXPECT_EQ(begin_step("off", true), "");
  slurm().node_rank = 1;
  EXPECT_EQ(begin_step(nullptr, true), "");
}

TEST_F(Hooks, ATamperedOptionHarmsNothingInTheStep) {
  slurm().context = S_CTX_REMOTE;
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  EXPECT_EQ(option("nccl-check", std::string(100'000, 'x').c_str(), true), -1);
  EXPECT_EQ(option("nccl-check", "\x1b[2J", true), -1);
  EXPECT_THAT(slurm().all_log(), Not(HasSubstr("\x1b")));
  EXPECT_EQ(plugin().call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(plugin().call("slurm_spank_user_init"), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Thrown inside the plugin, by its own libstdc++: too little memory is left to read the record with.
TEST_F(Hooks, AnExceptionDoesNotLeaveAHook) {
  write(job_file(slurm().job), record(slurm().job).dump());
  slurm().context = S_CTX_REMOTE;
  ASSERT_EQ(plugin().call("slurm_spank_init"), 0);
  const auto said = stderr_of([] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      slurm().log_to_stderr = true;
      const auto hook = plugin().hook("slurm_spank_init_post_opt");
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_AS, &none);
      ::setrlimit(RLIMIT_DATA, &none);
      for (std::size_t size = 1U << 20U; size >= 32'768; size /= 2)
        for (void* volatile taken = &size; taken != nullptr;) taken = std::malloc(size);
      ::_exit(hook(nullptr, 0, nullptr));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  });
  EXPECT_THAT(said, HasSubstr("slurm_spank_init_post_opt: std::bad_alloc"));
}
#endif

TEST_F(Hooks, HasTheHooksOfSubmitAndStepAndNoProlog) {
  for (const char* hook :
       {"slurm_spank_init", "slurm_spank_init_post_opt", "slurm_spank_user_init", "slurm_spank_task_init"})
    EXPECT_TRUE(plugin().has(hook)) << hook;
  for (const char* hook : {"slurm_spank_job_prolog", "slurm_spank_job_epilog", "spank_options"})
    EXPECT_FALSE(plugin().has(hook)) << hook;
}

// A step's own check: the hooks run as slurmstepd runs them, each task in a fork, on a stand-in for
// `nccl-check step`.
class OwnCheck : public Hooks {
 protected:
  static constexpr int user_code_ran = 42;

  void SetUp() override {
    Hooks::SetUp();
    folder_ = testing::TempDir() + "nccl_check_own_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    slurm().context = S_CTX_REMOTE;
    slurm().environment = {{"SLURMD_NODENAME", "n1"},         {"SLURM_STEP_NODELIST", "n[1-2]"},
                           {"SLURM_JOB_ID", "4001"},          {"SLURM_NODEID", "0"},
                           {"LD_PRELOAD", "/nonexistent.so"}, {"USER_SECRET", "xyzzy"}};
  }
  void TearDown() override {
    std::system(("rm -rf '" + folder_ + "'").c_str());  // NOLINT: a path of mkdtemp
    Hooks::TearDown();
  }

  // A program that prints the record with these changes after `before`, a shell command.
  std::string program(const Json& changes, const std::string& before = "", int code = 0) const {
    auto printed = record(4001);
    printed["step"] = 0;
    printed["nodes"] = "n[1-2]";
    printed["lines"] = {"nccl-check: own check"};
    printed.update(changes);
    const auto path = folder_ + "/program";
    write(folder_ + "/record", printed.dump(), 0644);
    write(path,
          "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + folder_ + "/arguments\nenv > " + folder_ +
              "/environment\n" + before + "\ncat " + folder_ + "/record\nexit " + std::to_string(code) + "\n",
          0755);
    return path;
  }

  struct Ended {
    std::vector<int> codes;  // of each task; user_code_ran: it got to the user's code
    std::string said;
  };
  // One step with `tasks` tasks on this node.
  static Ended run_step(const char* spec, const std::string& program, std::uint32_t tasks = 1,
                        bool inside = true) {
    Ended ended;
    slurm().local_tasks = tasks;
    if (inside) slurm().environment[asked_inside] = "1";
    ended.said = begin_step(spec, true, {"program=" + program});
    ended.said += stderr_of([&] {
      std::vector<pid_t> pids;
      for (std::uint32_t i = 0; i < tasks; ++i) {
        slurm().task = static_cast<int>(i);
        const pid_t pid = ::fork();
        if (pid == 0) {
          plugin().call("slurm_spank_task_init");
          const auto& verdict = slurm().environment["NCCL_CHECK_VERDICT"];
          const std::string all =
              "task " + std::to_string(i) + " runs with " + verdict + "\n" + slurm().all_log();
          [[maybe_unused]] const auto n = ::write(STDERR_FILENO, all.data(), all.size());
          ::_exit(user_code_ran);
        }
        pids.push_back(pid);
        EXPECT_EQ(plugin().call("slurm_spank_task_post_fork"), 0);
      }
      for (const auto pid : pids) {
        int status = 0;
        EXPECT_EQ(::waitpid(pid, &status, 0), pid);
        ended.codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
      }
    });
    return ended;
  }
  // Within a second the process is no more, or only waits for its adopter to reap it.
  static bool gone(int pid) {
    for (int i = 0; i < 100; ++i) {
      std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
      std::string number, name, state;
      if (!(in >> number >> name >> state) || state == "Z" || state == "X") return true;
      ::usleep(10'000);
    }
    return false;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(OwnCheck, PassesAndTheTasksRunWithItsVerdict) {
  const auto ended = run_step("node,size=1M", program(Json::object()), 3);
  EXPECT_THAT(ended.codes, testing::Each(user_code_ran));
  EXPECT_THAT(ended.said, HasSubstr("nccl-check: own check\n"));
  for (const char* line : {"task 0 runs with pass", "task 1 runs with pass", "task 2 runs with pass"})
    EXPECT_THAT(ended.said, HasSubstr(line));
  EXPECT_EQ(
      file("arguments"),
      "step\n--config\n" NCCL_CHECK_CONFIG
      "\n--spec\nnode,size=1M\n--job\n4001\n--step\n0\n--node\nn1\n--nodelist\nn[1-2]\n--node-rank\n0\n");
  EXPECT_THAT(file("environment"), AllOf(HasSubstr("SLURM_STEP_NODELIST=n[1-2]"), Not(HasSubstr("xyzzy")),
                                         Not(HasSubstr("LD_PRELOAD")), Not(HasSubstr(asked_inside))));
}

TEST_F(OwnCheck, AFailedOneEndsEveryTaskWithTheClassesCode) {
  const auto ended = run_step("strict", program({{"verdict", "slow"}, {"job_fails", true}}, "", 1), 3);
  EXPECT_THAT(ended.codes, testing::Each(1));
  EXPECT_THAT(ended.said, AllOf(HasSubstr("own check"), Not(HasSubstr("runs with"))));
  EXPECT_THAT(run_step("", program({{"verdict", "hung"}, {"job_fails", true}}, "", 3)).codes,
              testing::Each(3));
}

TEST_F(OwnCheck, AFailedOneIsOnlyShownWithWarn) {
  const auto ended = run_step("warn", program({{"verdict", "slow"}, {"job_fails", true}}, "", 1), 2);
  EXPECT_THAT(ended.codes, testing::Each(user_code_ran));
  EXPECT_THAT(ended.said, AllOf(HasSubstr("own check"), HasSubstr("task 1 runs with slow")));
}

TEST_F(OwnCheck, WithoutAVerdictTheStepRunsAndTheReasonIsShown) {
  const auto dies = run_step("", program(Json::object(), "echo no fabric here >&2; exit 3"));
  EXPECT_THAT(dies.codes, testing::Each(user_code_ran));
  EXPECT_THAT(dies.said, AllOf(HasSubstr("untested n1: what"), HasSubstr("exit status 3"),
                               HasSubstr("no fabric here"), HasSubstr("runs with untested")));
  EXPECT_THAT(run_step("", program({{"job", 4002}})).said, HasSubstr("'job' is 4002, expected 4001"));
  EXPECT_THAT(run_step("", program({{"step", nullptr}})).said, HasSubstr("'step'"));
  EXPECT_THAT(run_step("", "/nonexistent/nccl-check").said, HasSubstr("cannot start: No such file"));
  EXPECT_THAT(run_step("", program(Json::object(), "head -c 100000 /dev/zero")).said,
              HasSubstr("more than 65536 bytes"));
}

TEST_F(OwnCheck, IsKilledWithAllItStartedAtItsDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  const auto ended =
      run_step("time=100ms", program(Json::object(), "sleep 1000 & echo $! > " + folder_ + "/pid; wait"), 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_THAT(ended.codes, testing::Each(user_code_ran));
  EXPECT_THAT(ended.said, HasSubstr("no verdict within 2.1 s"));
  const int sleeper = std::stoi(file("pid"));
  EXPECT_TRUE(gone(sleeper)) << "the program's own child is still there";
}

TEST_F(OwnCheck, IsOnlyForAnSrunThatWasAskedInsideAnAllocation) {
  const auto never = program(Json::object(), "touch " + folder_ + "/started");
  EXPECT_THAT(run_step("strict", never, 1, false).said, HasSubstr("no check was made"));
  for (const std::uint32_t step : {SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP, SLURM_EXTERN_CONT}) {
    slurm().step = step;
    run_step("strict", never);
  }
  slurm().step = 0;
  run_step("off", never);
  EXPECT_EQ(::access((folder_ + "/started").c_str(), F_OK), -1);
}

TEST_F(OwnCheck, IsNotMadeWhereTheJobsVerdictSaysIt) {
  write(job_file(4001), record(4001).dump());
  const auto counted = program(Json::object(), "echo x >> " + folder_ + "/started");
  const auto started = [&] { return file("started").size() / 2; };
  run_step("", counted);
  run_step("strict", counted);
  run_step("node", counted);
  EXPECT_EQ(started(), 0);
  for (const char* more : {"force", "size=1G", "collective=all_gather", "busbw=3"}) run_step(more, counted);
  EXPECT_EQ(started(), 4);
}

TEST_F(OwnCheck, IsNotStartedWithMoreThanTheUsersIdentity) {
  slurm().user = ::getuid() + 1;
  const auto ended = run_step("", program(Json::object(), "touch " + folder_ + "/started"));
  EXPECT_THAT(ended.said, HasSubstr("does not run as the job's user"));
  EXPECT_EQ(::access((folder_ + "/started").c_str(), F_OK), -1);
}

TEST_F(OwnCheck, TheOtherTasksDoNotWaitForAFirstOneThatIsGone) {
  slurm().local_tasks = 2;
  slurm().environment[asked_inside] = "1";
  begin_step("", true, {"program=" + program(Json::object())});
  slurm().task = 1;
  const auto said = stderr_of([&] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      plugin().call("slurm_spank_task_init");
      const auto all = slurm().all_log();
      [[maybe_unused]] const auto n = ::write(STDERR_FILENO, all.data(), all.size());
      ::_exit(user_code_ran);
    }
    plugin().call("slurm_spank_task_post_fork");
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  });
  EXPECT_THAT(said, HasSubstr("first task ended without a verdict"));
}

}  // namespace
}  // namespace nccl_check::fake
