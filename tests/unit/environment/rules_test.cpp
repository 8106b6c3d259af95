// A site's rules: which fit, what they do, and what is wrong with them.
#include <gmock/gmock.h>

#include "environment/match.hpp"
#include "planning.hpp"

namespace nccl_check::environment {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Rule rule(const std::string& variable, const std::string& value, const std::string& source = "t:1") {
  Rule out;
  out.set[variable] = value;
  out.source = source;
  return out;
}

TEST(Versions, AsNcclWritesThem) {
  EXPECT_EQ(parse_version("2.28.9"), (Version{2, 28, 9}));
  EXPECT_EQ(parse_version("2.21"), (Version{2, 21, 0}));
  EXPECT_EQ(parse_version("2.28.9+cuda13.0"), (Version{2, 28, 9}));
  EXPECT_EQ(parse_version("2.18.5-1"), (Version{2, 18, 5}));
  EXPECT_EQ(parse_version("22809"), (Version{2, 28, 9}));
  EXPECT_EQ(parse_version("2804"), (Version{2, 8, 4}));
  for (const char* bad : {"", "2", "x", "2.x", "2..1", "-1.2", "2.28.9.1.1"})
    EXPECT_FALSE(parse_version(bad)) << bad;
}

class Site : public testing::Test {
 protected:
  Site() : machine_(fixtures::juwels_booster()) {
    situation_.node = "n7";
    situation_.partition = "gpu";
  }
  Plan plan(const std::vector<Rule>& rules) { return plan_of(*machine_, situation_, rules); }
  fixtures::Machine machine_;
  Situation situation_;
};

TEST_F(Site, ARuleReplacesWhatWasBuiltInAndSaysWhere) {
  auto mine = rule("NCCL_IB_HCA", "=mlx5_0", "nccl-check.toml:12");
  mine.why = "rail 0 only, ticket 7";
  const auto got = plan({mine});
  EXPECT_EQ(value(got, "NCCL_IB_HCA"), "=mlx5_0");
  EXPECT_EQ(got.find("NCCL_IB_HCA")->why, "rail 0 only, ticket 7");
  EXPECT_EQ(got.find("NCCL_IB_HCA")->source, "nccl-check.toml:12");
}

TEST_F(Site, TheFirstThatFitsDecides) {
  auto other = rule("NCCL_ALGO", "Ring");
  other.match.nodes = {"n1"};
  EXPECT_EQ(value(plan({other, rule("NCCL_ALGO", "Tree"), rule("NCCL_ALGO", "NVLS")}), "NCCL_ALGO"), "Tree");
}

TEST_F(Site, EveryConditionMustHold) {
  const auto with = [&](auto change) {
    auto r = rule("NCCL_ALGO", "Ring");
    change(r.match);
    return value(plan({r}), "NCCL_ALGO");
  };
  EXPECT_EQ(with([](Match& m) { m.partition = "gpu"; }), "Ring");
  EXPECT_EQ(with([](Match& m) { m.partition = "cpu"; }), "-");
  EXPECT_EQ(with([](Match& m) { m.gpu = "a100"; }), "Ring");
  EXPECT_EQ(with([](Match& m) { m.gpu = "H100"; }), "-");
  EXPECT_EQ(with([](Match& m) { m.fabric = node::Fabric::verbs; }), "Ring");
  EXPECT_EQ(with([](Match& m) { m.fabric = node::Fabric::cxi; }), "-");
  EXPECT_EQ(with([](Match& m) { m.nccl_from = Version{2, 28, 9}; }), "Ring");
  EXPECT_EQ(with([](Match& m) { m.nccl_before = Version{2, 28, 9}; }), "-");
  EXPECT_EQ(with([](Match& m) { m.nodes = {"n7", "n8"}; }), "Ring");
}

TEST_F(Site, WhatCanNotBeDecidedIsSaid) {
  situation_.partition.clear();
  auto r = rule("NCCL_ALGO", "Ring", "t:9");
  r.match.partition = "gpu";
  const auto got = plan({r});
  EXPECT_EQ(value(got, "NCCL_ALGO"), "-");
  EXPECT_THAT(why_not(got, "the rule at t:9"), HasSubstr("partition gpu"));
}

TEST_F(Site, ATopologyFileMustBeThere) {
  situation_.exists = [](const std::string& path) { return path == "/etc/here.xml"; };
  EXPECT_EQ(value(plan({rule("NCCL_TOPO_FILE", "/etc/here.xml")}), "NCCL_TOPO_FILE"), "/etc/here.xml");
  const auto got = plan({rule("NCCL_TOPO_FILE", "/etc/gone.xml")});
  EXPECT_EQ(value(got, "NCCL_TOPO_FILE"), "-");
  EXPECT_THAT(why_not(got, "NCCL_TOPO_FILE"), HasSubstr("not there"));
  EXPECT_EQ(value(plan({rule("NCCL_DEBUG_FILE", "/tmp/%h.log")}), "NCCL_DEBUG_FILE"), "/tmp/%h.log");
}

TEST_F(Site, UnsetAndPrepend) {
  Rule r;
  r.unset = {"NCCL_IB_HCA"};
  r.prepend["LD_LIBRARY_PATH"] = "/opt/a";
  Rule second;
  second.prepend["LD_LIBRARY_PATH"] = "/opt/b";
  const auto got = plan({r, second});
  EXPECT_EQ(got.find("NCCL_IB_HCA")->change, Change::unset);
  EXPECT_EQ(got.find("LD_LIBRARY_PATH")->change, Change::prepend);
  EXPECT_EQ(value(got, "LD_LIBRARY_PATH"), "/opt/a:/opt/b");
}

TEST(Check, GoodRulesAreSilent) {
  auto narrow = rule("A", "1", "t:1");
  narrow.match.nodes = {"n1"};
  EXPECT_THAT(check_rules({narrow, rule("A", "2", "t:2"), rule("B", "1", "t:3"), rule("A", "2", "t:4")}, {}),
              IsEmpty())
      << "an exception, another variable, the same value";
}

TEST(Check, ARuleThatFitsNothing) {
  auto version = rule("A", "1", "t:5");
  version.match.nccl_from = Version{2, 20, 0};
  version.match.nccl_before = Version{2, 18, 0};
  auto partition = rule("B", "1", "t:6");
  partition.match.partition = "gpuu";
  auto nodes = rule("C", "1", "t:7");
  nodes.match.nodes = {"x1"};
  auto gpu = rule("D", "1", "t:8");
  gpu.match.gpu = "H100";
  Known known;
  known.partitions = {"gpu"};
  known.nodes = {"n1", "n2"};
  known.gpus = {"NVIDIA A100-SXM4-40GB"};
  const auto errors = check_rules({version, partition, nodes, gpu}, known);
  ASSERT_THAT(errors, SizeIs(4));
  EXPECT_THAT(errors[0].text(), HasSubstr("t:5: the rule fits nothing: no NCCL is at least 2.20.0"));
  EXPECT_THAT(errors[1].text(), HasSubstr("'gpuu' (there are: gpu)"));
  EXPECT_THAT(errors[2].text(), HasSubstr("n[1-2]"));
  EXPECT_THAT(errors[3].text(), HasSubstr("A100"));
  EXPECT_THAT(check_rules({partition, nodes, gpu}, {}), IsEmpty()) << "what a site has is not known";
}

TEST(Check, ARuleThatIsNeverReached) {
  auto late = rule("A", "2", "t:2");
  late.match.nodes = {"n1"};
  const auto errors = check_rules({rule("A", "1", "t:1"), late}, {});
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0].text(),
              HasSubstr("t:2: the rule sets A=2, but the one at t:1 comes first and sets A=1: this "
                        "one never takes effect"));
}

TEST(Check, RulesThatContradictWhereBothFit) {
  auto one = rule("A", "1", "t:1");
  one.match.partition = "p";
  Rule two;
  two.source = "t:2";
  two.match.gpu = "H100";
  two.unset = {"A"};
  const auto errors = check_rules({one, two}, {});
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0].text(),
              HasSubstr("unsets A, but the one at t:1 comes first and sets A=1 where both fit"));
  one.match.gpu = "A100";
  EXPECT_THAT(check_rules({one, two}, {}), IsEmpty()) << "they never meet";
}

TEST(Check, NamesAndContradictionsWithin) {
  auto bad = rule("NCCL ALGO", "1", "t:1");
  bad.set["X"] = "two\nlines";
  bad.unset = {"X"};
  EXPECT_THAT(check_rules({bad}, {}), SizeIs(3));
  EXPECT_THAT(check_rules({Rule{}}, {}).at(0).text(), HasSubstr("does nothing"));
}

}  // namespace
}  // namespace nccl_check::environment
