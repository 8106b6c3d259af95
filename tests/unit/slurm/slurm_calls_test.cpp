// What nccl-check-slurm does without a daemon. What it does with one is in tests/cluster/actions.bats.
#include <gmock/gmock.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <cerrno>

#include "slurm/answer.hpp"
#include "slurm/jobs.hpp"
#include "slurm/nodes.hpp"

namespace nccl_check::slurm {
namespace {

using testing::ElementsAre;

TEST(Answer, SlurmctldsNoIsDefiniteTheWayThereIsNot) {
  EXPECT_TRUE(answered(ESLURM_INVALID_NODE_NAME));
  EXPECT_TRUE(answered(ESLURM_ACCESS_DENIED));
  EXPECT_TRUE(answered(ESLURM_JOB_FINISHED));
  EXPECT_FALSE(answered(SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT));
  EXPECT_FALSE(answered(SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR));
  EXPECT_FALSE(answered(SLURM_COMMUNICATIONS_RECEIVE_ERROR));
  EXPECT_FALSE(answered(ETIMEDOUT));
  EXPECT_FALSE(answered(ESLURM_AUTH_CRED_INVALID));
  errno = ESLURM_INVALID_NODE_NAME;
  EXPECT_EQ(failed_call("x").exit_code, exit_definite);
  errno = ETIMEDOUT;
  EXPECT_EQ(failed_call("x").exit_code, exit_no_answer);
  EXPECT_EQ(failed_call("x").object["answered"], false);
}

TEST(Leaves, OfATreeOnlyTheLowestSwitches) {
  const std::string printed =
      "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-3] \n"
      "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[4-5],m7 \n"
      "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-5],m7 Switches=s[1-2] \n";
  EXPECT_EQ(leaves(printed, {}), Json::parse(R"({"s1":["n1","n2","n3"],"s2":["n4","n5","m7"]})"));
  EXPECT_EQ(leaves(printed, {"n2", "m7", "x"}), Json::parse(R"({"s1":["n2"],"s2":["m7"]})"));
}

TEST(Leaves, OfBlocksTheBlocks) {
  EXPECT_EQ(leaves("BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n", {}),
            Json::parse(R"({"b1":["n1","n2"]})"));
}

TEST(Leaves, OfNoTopologyNone) {
  EXPECT_EQ(leaves("", {}), Json::object());
  EXPECT_EQ(leaves("No topology information available\n", {}), Json::object());
  EXPECT_EQ(leaves("SwitchName=s1 Level=0 LinkSpeed=1 \n", {}), Json::object());
}

TEST(States, Words) {
  EXPECT_THAT(state_words(NODE_STATE_IDLE), ElementsAre("idle"));
  EXPECT_THAT(state_words(NODE_STATE_MIXED | NODE_STATE_DRAIN | NODE_STATE_NO_RESPOND),
              ElementsAre("mixed", "drain", "not_responding"));
  EXPECT_THAT(state_words(NODE_STATE_DOWN), ElementsAre("down"));
}

TEST(Comment, OthersStayOursIsReplaced) {
  EXPECT_EQ(merge_comment("", "nccl-check: a"), "nccl-check: a");
  EXPECT_EQ(merge_comment("nccl-check: a", "nccl-check: b"), "nccl-check: b");
  EXPECT_EQ(merge_comment("site: x", "nccl-check: a"), "site: x | nccl-check: a");
  EXPECT_EQ(merge_comment("site: x | nccl-check: a", "nccl-check: b"), "site: x | nccl-check: b");
  EXPECT_EQ(merge_comment("", "nccl-check: a\nnccl-check: b\n"), "nccl-check: a | nccl-check: b");
  EXPECT_EQ(merge_comment("", std::string("nccl-check: \x1b[31m")), "nccl-check: ?[31m");
  EXPECT_LE(merge_comment("", std::string(100'000, 'x')).size(), 5000U);
}

TEST(Excluded, IsMergedWithWhatIsThere) {
  EXPECT_EQ(merge_hostlist("", {"n3"}), "n3");
  EXPECT_EQ(merge_hostlist("n[1-2]", {"n3"}), "n[1-3]");
  EXPECT_EQ(merge_hostlist("n3", {"n3"}), "n3");
  EXPECT_EQ(merge_hostlist("m1", {"n3", "n4"}), "m1,n[3-4]");
  EXPECT_EQ(merge_hostlist("n2", {"n1"}), "n[1-2]");
}

}  // namespace
}  // namespace nccl_check::slurm
