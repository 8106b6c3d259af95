// What NCCL would find: environment and files merged by its own rules, bad lines, and what values really
// mean.
#include "environment/in_force.hpp"

#include <gmock/gmock.h>

#include "environment/remarks.hpp"
#include "planning.hpp"

namespace nccl_check::environment {
namespace {

using fixtures::MadeNode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

InForce of_file(const std::string& text) {
  return merge({}, {{"/etc/nccl.conf", text, false}});
}
std::vector<std::string> texts(const std::vector<Remark>& remarks) {
  std::vector<std::string> out;
  for (const auto& r : remarks) out.push_back(r.variable + ": " + r.text);
  return out;
}

TEST(InForce, TheFirstSetterWinsAndSaysWhatItDefeats) {
  const auto got =
      merge({{"NCCL_ALGO", "Tree"}},
            {{"/home/u/.nccl.conf", "NCCL_ALGO=Ring\nNCCL_PROTO=LL\nNCCL_PROTO=Simple\n", true},
             {"/etc/nccl.conf", "# site\nNCCL_ALGO=NVLS\nNCCL_PROTO=LL128\nFI_PROVIDER=efa\n", false}});
  EXPECT_EQ(got.values.at("NCCL_ALGO").value, "Tree");
  EXPECT_EQ(got.values.at("NCCL_ALGO").source, "environment");
  EXPECT_THAT(got.values.at("NCCL_ALGO").hidden,
              ElementsAre("/home/u/.nccl.conf:1: Ring", "/etc/nccl.conf:2: NVLS"));
  EXPECT_EQ(got.values.at("NCCL_PROTO").value, "LL");
  EXPECT_EQ(got.values.at("NCCL_PROTO").source, "/home/u/.nccl.conf:2");
  EXPECT_EQ(got.values.at("FI_PROVIDER").source, "/etc/nccl.conf:4") << "any variable may stand there";
  EXPECT_FALSE(got.values.at("FI_PROVIDER").users);
  EXPECT_THAT(got.bad_lines, IsEmpty());
}

TEST(InForce, TheFilesByVersion) {
  MadeNode node;
  node.write("/home/u/.nccl.conf", "A=1\n");
  node.write("/srv/mine.conf", "A=2\n");
  node.write("/etc/nccl.conf", "A=3\n");
  node::Tree tree(node.root());
  std::vector<BadLine> bad;
  const auto paths = [&](const std::map<std::string, std::string>& environment, std::optional<Version> nccl) {
    std::vector<std::string> out;
    for (const auto& file : conf_files(tree, environment, "/home/u", nccl, bad)) out.push_back(file.path);
    return out;
  };
  const std::map<std::string, std::string> named{{"NCCL_CONF_FILE", "/srv/mine.conf"}};
  EXPECT_THAT(paths({}, Version{2, 28, 9}), ElementsAre("/home/u/.nccl.conf", "/etc/nccl.conf"));
  EXPECT_THAT(paths(named, Version{2, 23, 0}), ElementsAre("/srv/mine.conf", "/etc/nccl.conf"));
  EXPECT_THAT(paths(named, Version{2, 22, 3}), ElementsAre("/home/u/.nccl.conf", "/etc/nccl.conf"));
  EXPECT_THAT(bad, IsEmpty());
  EXPECT_THAT(paths({{"NCCL_CONF_FILE", "/srv/gone.conf"}}, std::nullopt), ElementsAre("/etc/nccl.conf"));
  ASSERT_THAT(bad, SizeIs(1));
  EXPECT_THAT(bad[0].what, HasSubstr("/srv/gone.conf can't be read"));
}

TEST(InForce, BadLinesAreNamed) {
  const auto got = of_file(
      "export NCCL_ALGO=Ring\nNCCL_NET=\"IB\"\nNCCL_DEBUG=INFO \nNCCL_PROTO = LL\nNCCL_X\n  # indented\n=3\n"
      "NCCL_A=1 # why\nNCCL_B=2\r\n\n#NCCL_C=1\nNCCL_D= 4\nNCCL_OK=a=b\n");
  std::vector<std::string> all;
  for (const auto& bad : got.bad_lines) all.push_back(bad.source + " " + bad.what);
  EXPECT_THAT(
      all,
      ElementsAre(HasSubstr("nccl.conf:1 'export NCCL_ALGO=Ring' sets a variable called 'export NCCL_ALGO'"),
                  HasSubstr(":2 'NCCL_NET=\"IB\"' has quotes"), HasSubstr(":3 'NCCL_DEBUG=INFO ' has blanks"),
                  HasSubstr(":4 'NCCL_PROTO = LL' sets a variable called 'NCCL_PROTO '"),
                  HasSubstr(":5 'NCCL_X' has no ="), HasSubstr(":7 '=3' has no name"),
                  HasSubstr(":8 'NCCL_A=1 # why' has a comment"),
                  HasSubstr(":9 'NCCL_B=2?' ends in a carriage return"),
                  HasSubstr(":12 'NCCL_D= 4' has blanks")));
  EXPECT_EQ(got.values.count("NCCL_ALGO"), 0U) << "it is not set";
  EXPECT_EQ(got.values.at("NCCL_NET").value, "\"IB\"");
  EXPECT_EQ(got.values.at("NCCL_OK").value, "a=b");
  EXPECT_EQ(got.values.count("NCCL_C"), 0U);
}

TEST(InForce, OnlyWhatConcernsNcclIsTakenFromTheEnvironment) {
  const char* const entries[] = {"PATH=/bin", "NCCL_DEBUG=WARN", "TOKEN=secret", "FI_PROVIDER=cxi", "NCCL",
                                 nullptr};
  EXPECT_THAT(of_interest(entries),
              ElementsAre(testing::Pair("FI_PROVIDER", "cxi"), testing::Pair("NCCL_DEBUG", "WARN")));
}

TEST(Keep, WhatTheUserSetStaysAndIsSaid) {
  auto plan = plan_of(*fixtures::juwels_booster());
  keep_what_is_set(merge({{"NCCL_IB_HCA", "mlx5_1"}, {"NCCL_SOCKET_IFNAME", "=ib0"}}, {}), plan);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "-");
  EXPECT_THAT(why_not(plan, "NCCL_IB_HCA"),
              HasSubstr("kept as environment has it: mlx5_1; it would be =mlx5_0,"));
  EXPECT_EQ(why_not(plan, "NCCL_SOCKET_IFNAME"), "environment has the same already");
}

TEST(Keep, TheSitesFileGoesBeforeBuiltInRulesAndBehindItsOwn) {
  Rule rule;
  rule.set["NCCL_SOCKET_IFNAME"] = "=ib1";
  auto plan = plan_of(*fixtures::juwels_booster(), {}, {rule});
  keep_what_is_set(of_file("NCCL_IB_HCA=^mlx5_0:1\nNCCL_SOCKET_IFNAME=eth0\n"), plan);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "-");
  EXPECT_THAT(why_not(plan, "NCCL_IB_HCA"), HasSubstr("/etc/nccl.conf:1"));
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ib1");
}

class Remarked : public testing::Test {
 protected:
  Remarked() {
    for (int i : {0, 1, 10, 11}) {
      const auto nic =
          node_.nic("pci0000:40/0000:40:0" + std::to_string(i % 10) + "." + std::to_string(i / 10), 0);
      node_.hca({"mlx5_" + std::to_string(i), nic, i == 11 ? "1: DOWN" : "4: ACTIVE"});
      node_.interface({"eth" + std::to_string(i),
                       nic,
                       1,
                       i != 11,
                       i < 10,
                       1000,
                       {"10.0.0." + std::to_string(i + 1) + "/24"}});
    }
    node_.interface({"lo", "", 772, true, true, 0, {"127.0.0.1/8"}});
    node_.write_links();
    situation_.nccl = Version{2, 28, 9};
  }
  std::vector<std::string> said(const std::string& variable, const std::string& value) {
    return texts(remark(merge({{variable, value}}, {}), facts_of(node_), situation_));
  }
  MadeNode node_;
  Situation situation_;
};

TEST_F(Remarked, PrefixesTakeMoreThanTheyName) {  // nccl PR#236
  EXPECT_THAT(said("NCCL_IB_HCA", "mlx5_1"), Contains(HasSubstr("mlx5_1 also takes mlx5_10 and mlx5_11")));
  EXPECT_THAT(said("NCCL_IB_HCA", "mlx5_1:1"), Contains(HasSubstr("mlx5_1 also takes mlx5_10 and mlx5_11")));
  EXPECT_THAT(said("NCCL_IB_HCA", "^mlx5_1"),
              Contains(HasSubstr("also takes mlx5_10 and mlx5_11 (^= at the start")));
  EXPECT_THAT(said("NCCL_IB_HCA", "=mlx5_1"), IsEmpty());
  EXPECT_THAT(said("NCCL_IB_HCA", "mlx5_0"), IsEmpty());
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "eth1"), Contains(HasSubstr("eth1 also takes eth10 and eth11")));
}

TEST_F(Remarked, AListsFirstCharacterAloneCounts) {
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "eth0,=eth1"),
              ElementsAre(HasSubstr("'=eth1': = and ^ count at the start")));
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "=eth0, eth1"),
              ElementsAre(HasSubstr("' eth1': the blank belongs to the name")));
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "e"), ElementsAre(HasSubstr("one character")));
}

TEST_F(Remarked, WhatIsNotThereOrDead) {  // nccl#1837, #1798
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "=eth2"), ElementsAre(HasSubstr("there is no interface eth2 here")));
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "=eth10"), ElementsAre(HasSubstr("eth10 has no carrier")));
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "=eth11"), ElementsAre(HasSubstr("eth11 is down")));
  EXPECT_THAT(said("NCCL_IB_HCA", "=mlx5_11"),
              ElementsAre(HasSubstr("mlx5_11:1 is DOWN: NCCL skips it in silence")));
  EXPECT_THAT(said("NCCL_IB_HCA", "=mlx5_7"), ElementsAre(HasSubstr("there is no HCA mlx5_7")));
}

TEST_F(Remarked, AListOfExceptionsMustNameTheLoopback) {  // aws/deep-learning-containers#4756
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "^docker0"), ElementsAre(HasSubstr("lets lo through")));
  EXPECT_THAT(said("NCCL_SOCKET_IFNAME", "^docker0,lo"), IsEmpty());
}

TEST_F(Remarked, FilesVersionsAndWhatMakesSlow) {  // nccl#1008, azhpc-images#327
  situation_.exists = [](const std::string& path) { return path == "/opt/graph.xml"; };
  EXPECT_THAT(said("NCCL_GRAPH_FILE", "/opt/graph.xml"), ElementsAre(HasSubstr("XML Import Channel")));
  EXPECT_THAT(said("NCCL_TOPO_FILE", "/opt/gone.xml"), ElementsAre(HasSubstr("/opt/gone.xml is not there")));
  EXPECT_THAT(said("NCCL_IB_GID_INDEX", "3"), ElementsAre(HasSubstr("finds it by itself")));
  EXPECT_THAT(said("NCCL_P2P_DISABLE", "1"), SizeIs(1));
  EXPECT_THAT(said("NCCL_P2P_DISABLE", "0"), IsEmpty());
  EXPECT_THAT(said("NCCL_NET", "Socket"), ElementsAre(HasSubstr("RDMA ports of this node are not used")));
  EXPECT_THAT(said("NCCL_IB_HCA", "\"mlx5_0\""), Contains(HasSubstr("quotes")));
}

}  // namespace
}  // namespace nccl_check::environment
