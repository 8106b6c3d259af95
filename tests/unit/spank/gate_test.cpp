// The gate's hook plugin, called as `slurmstepd spank prolog` calls it.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fake_slurm.hpp"

namespace nccl_check::fake {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Gate : public testing::Test {
 protected:
  void SetUp() override {
    reset();
    slurm().context = S_CTX_JOB_SCRIPT;
    folder_ = testing::TempDir() + "nccl_check_gate_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    std::system(("rm -rf '" + folder_ + "'").c_str());
  }  // NOLINT: a path of mkdtemp

  std::string program(const std::string& end) const {
    const auto path = folder_ + "/program";
    std::ofstream(path) << "#!/bin/sh\nprintf '%s ' \"$@\" > " << folder_ << "/arguments\nenv > " << folder_
                        << "/environment\n"
                        << end << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return "program=" + path;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static const Plugin& plugin() {
    static const Plugin one(NCCL_CHECK_TEST_GATE_PLUGIN);
    return one;
  }

  std::string folder_;
};

TEST_F(Gate, StartsTheGateWithTheEnvironmentOfSlurmd) {
  ::setenv("SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check", "(null)", 1);
  EXPECT_EQ(plugin().call("slurm_spank_job_prolog", {program("exit 0"), "config=/etc/other.toml"}), 0);
  EXPECT_EQ(file("arguments"), "gate --config /etc/other.toml ");
  EXPECT_THAT(file("environment"), HasSubstr("SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check=(null)"));
  EXPECT_THAT(slurm().log, IsEmpty());
}

TEST_F(Gate, FailsThePrologOnlyWhenTheGateSaysSo) {
  EXPECT_EQ(plugin().call("slurm_spank_job_prolog", {program("exit 1")}), -1);
  for (const char* end : {"exit 2", "exit 7", "kill -9 $$"}) {
    slurm().log.clear();
    EXPECT_EQ(plugin().call("slurm_spank_job_prolog", {program(end)}), 0) << end;
    EXPECT_TRUE(slurm().logged("the gate ended with")) << end;
  }
}

TEST_F(Gate, NeverFailsTheEpilog) {
  EXPECT_EQ(plugin().call("slurm_spank_job_epilog", {program("exit 1")}), 0);
  EXPECT_EQ(file("arguments"), "gate --after-job ");
}

TEST_F(Gate, WhatCannotStartAllowsTheJobAndIsLogged) {
  EXPECT_EQ(plugin().call("slurm_spank_job_prolog", {"program=/nonexistent/nccl-check"}), 0);
  EXPECT_THAT(slurm().all_log(), AllOf(HasSubstr("/nonexistent/nccl-check"), HasSubstr("not checked")));
  slurm().log.clear();
  EXPECT_EQ(plugin().call("slurm_spank_job_prolog", {"prog=/bin/true"}), 0);
  EXPECT_TRUE(slurm().logged("unknown argument 'prog=/bin/true'"));
}

TEST_F(Gate, HasNothingButItsHooks) {
  EXPECT_TRUE(plugin().has("slurm_spank_job_prolog"));
  EXPECT_TRUE(plugin().has("slurm_spank_job_epilog"));
  for (const char* hook :
       {"slurm_spank_init", "slurm_spank_user_init", "slurm_spank_task_init", "slurm_spank_slurmd_exit"})
    EXPECT_FALSE(plugin().has(hook)) << hook;
}

}  // namespace
}  // namespace nccl_check::fake
