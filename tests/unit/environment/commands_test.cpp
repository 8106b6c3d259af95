// nccl-check env and nccl-check node, on made trees.
#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/process.hpp"
#include "commands/env.hpp"
#include "commands/env_output.hpp"
#include "commands/node.hpp"
#include "planning.hpp"

namespace nccl_check::commands {
namespace {

using namespace fixtures;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Shown {
  int code;
  std::string out, error;
};
Shown run_env(const EnvArguments& arguments, const Surroundings& around = {}) {
  std::ostringstream out, error;
  const int code = env(arguments, around, out, error);
  return {code, out.str(), error.str()};
}
EnvArguments of(const MadeNode& made) {
  EnvArguments arguments;
  arguments.root = made.root();
  arguments.nccl = "2.28.9";
  return arguments;
}

TEST(Env, TheTableHasVariableValueWhyAndSourceThenWhatWasLeftOut) {
  const auto made = juwels_booster();
  const auto shown = run_env(of(*made));
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out, HasSubstr("node gpu17, NCCL 2.28.9 (--nccl)"));
  EXPECT_THAT(shown.out, HasSubstr("=mlx5_0,mlx5_1,mlx5_2,mlx5_3"));
  EXPECT_THAT(shown.out, HasSubstr("4 active ports at 200 Gbit/s, on the GPUs' PCIe switches"));
  EXPECT_THAT(shown.out, HasSubstr("[built in: NCCL_IB_HCA takes prefixes"));
  EXPECT_LT(shown.out.find("set:"), shown.out.find("left out:"));
  EXPECT_THAT(shown.out, HasSubstr("enp225s0f0    1 Gbit/s, others have 200 Gbit/s"));
}

TEST(Env, JsonHoldsTheSame) {
  const auto made = rtx4090_calico();
  auto arguments = of(*made);
  arguments.json = true;
  const auto shown = json::parse(run_env(arguments).out);
  EXPECT_EQ(shown.at("decisions").at(0).at("variable"), "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(shown.at("decisions").at(0).at("value"), "=enp34s0f0");
  EXPECT_GT(shown.at("left_out").size(), 10U);
}

TEST(Env, ShellLinesCanBeEvaluated) {
  EnvReport report;
  report.plan.decisions = {
      {"A", environment::Change::set, "it's $HOME", "two\nlines", "t:1", true},
      {"B", environment::Change::unset, "", "", "t:2", true},
      {"P", environment::Change::prepend, "/opt/x", "", "t:3", true},
      {"Q", environment::Change::prepend, "/opt/y", "", "t:4", true},
  };
  const auto script =
      "B=1; P=/usr/lib\n" + env_shell(report) + "printf '%s|%s|%s|%s' \"$A\" \"${B-none}\" \"$P\" \"$Q\"";
  const auto ran =
      run({"/bin/sh", {"-c", script}, {"HOME=/root"}, {}, {}}, "", Deadline::in(Milliseconds(5000)));
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(ran->out, "it's $HOME|none|/opt/x:/usr/lib|/opt/y");
}

TEST(Env, TheNodesOwnFileIsReadAndItsBadLinesNamed) {
  const auto made = crusoe_h100_vm();
  made->write("/etc/nccl.conf",
              "NCCL_IB_HCA=^mlx5_0:1\nexport NCCL_ALGO=NVLSTree\nNCCL_GRAPH_FILE=/opt/stale.xml\n");
  const auto shown = run_env(of(*made));
  EXPECT_THAT(shown.out, HasSubstr("kept as /etc/nccl.conf:1 has it"));
  EXPECT_THAT(shown.out, HasSubstr("sets a variable called 'export NCCL_ALGO'"));
  EXPECT_THAT(shown.out, HasSubstr("/opt/stale.xml is not there"));
}

TEST(Env, AnotherNodesTreeDoesNotRunUnderOurEnvironment) {
  const auto made = juwels_booster();
  const char* const entries[] = {"NCCL_IB_HCA=mlx5_9", "SLURM_JOB_NUM_NODES=2", nullptr};
  Surroundings around;
  around.environment = entries;
  EXPECT_THAT(run_env(of(*made), around).out, Not(HasSubstr("mlx5_9")));
  EnvArguments here;
  const auto live = run_env(here, around);
  EXPECT_THAT(live.out, HasSubstr("mlx5_9"));
}

TEST(Env, WrongArgumentsAreNamed) {
  EnvArguments arguments;
  arguments.nccl = "new";
  EXPECT_EQ(run_env(arguments).code, 2);
  EXPECT_THAT(run_env(arguments).error, HasSubstr("'new' is no version"));
  arguments.nccl.clear();
  arguments.root = "/nowhere";
  EXPECT_EQ(run_env(arguments).code, 2);
}

TEST(Env, ARecordedNodeGetsTheSameAnswer) {
  for (const auto& make :
       {azure_nd_h100, aws_p4d, oci_h100_roce, hgx_h800, juwels_booster, elcap_mi300a, olivia_gh200,
        hgx_h100_bond0, rtx6000_ports_down, rtx4090_calico, gpuless_sysfs, crusoe_h100_vm}) {
    const auto made = make();
    const MadeNode target;
    std::ostringstream out, error;
    NodeArguments arguments;
    arguments.root = made->root();
    arguments.record = target.root() + "/copy";
    ASSERT_EQ(node(arguments, out, error), 0) << error.str();
    auto env_arguments = of(*made);
    env_arguments.json = true;
    env_arguments.nodes = 2;
    auto before = json::parse(run_env(env_arguments).out);
    env_arguments.root = arguments.record;
    auto after = json::parse(run_env(env_arguments).out);
    before.erase("node");
    after.erase("node");
    EXPECT_EQ(before, after);
  }
}

TEST(NodeCommand, ShowsWhatIsKnownAndWhatIsNot) {
  const auto made = rtx6000_ports_down();
  std::ostringstream out, error;
  NodeArguments arguments;
  arguments.root = made->root();
  EXPECT_EQ(node(arguments, out, error), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("GPU 0000:01:00.0  NVIDIA RTX 6000 Ada Generation, NUMA 0, 2.5 GT/s x16 (at most 16 "
                        "GT/s x16), nearest mlx5_0 (NODE) mlx5_1 (NODE)"));
  EXPECT_THAT(out.str(), HasSubstr("RDMA mlx5_0:1  DOWN, 40 Gbit/s, Ethernet, 0000:21:00.0"));
  EXPECT_THAT(out.str(), HasSubstr("NVIDIA driver unknown"));
}

}  // namespace
}  // namespace nccl_check::commands
