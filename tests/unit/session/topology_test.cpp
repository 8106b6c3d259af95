// The leaves, as the coordinator reads them from the program that asks Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/session/coordinator_process.hpp"

namespace nccl_check::job {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Topology, EveryNodeGetsItsLeaf) {
  EXPECT_THAT(
      ask_topology({"/bin/echo", R"({"leaves":{"leaf-one":["n1","n3"],"leaf-two":["n2"],"none":[]}})"}),
      ElementsAre(Pair("n1", "leaf-one"), Pair("n2", "leaf-two"), Pair("n3", "leaf-one")));
}

TEST(Topology, WithoutAnAnswerThatFitsNoLeafIsKnown) {
  EXPECT_THAT(ask_topology({}), IsEmpty());
  EXPECT_THAT(ask_topology({"/bin/false"}), IsEmpty());
  EXPECT_THAT(ask_topology({"/nowhere/nccl-check-slurm"}), IsEmpty());
  for (const auto* text : {"", "{", "[]", R"({"leaves":7})", R"({"leaves":{"s1":["n1"],"s2":[2]}})"})
    EXPECT_THAT(ask_topology({"/bin/echo", text}), IsEmpty()) << text;
}

}  // namespace
}  // namespace nccl_check::job
