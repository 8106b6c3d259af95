#include "spank/record.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace nccl_check::spank {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

const Expected of_job{1234, std::nullopt, 1000};

Json good() {
  return Json::parse(
      R"({"schema":"nccl-check.verdict","version":1,"job":1234,"step":null,"restart":0,"uid":1000,
    "node":"n1","nodes":"n[1-4]","spec":"strict,busbw=0.1","time":1764534000,"seconds":2.9,"engine":"fabric",
    "mode":"enforce","verdict":"slow","action":"drain","job_fails":true,"busbw":0.0234,"limit":0.09,"reused":false,
    "node_verdict":"pass","lines":["nccl-check: slow n3: send/recv"],"culprits":[{"node":"n3"}],"later":{"key":[1]}})");
}

std::string refusal(const Json& json, const Expected& expected = of_job) {
  const auto record = parse_record(json.dump(), expected);
  return record ? std::string("taken") : record.error().text();
}

TEST(Record, ReadsWhatTheGateWrites) {
  const auto record = parse_record(good().dump(), of_job);
  ASSERT_TRUE(record) << record.error().text();
  EXPECT_EQ(record->node, "n1");
  EXPECT_EQ(record->first_node, "n1");
  EXPECT_EQ(record->spec.consequence, option::Consequence::strict);
  EXPECT_EQ(record->verdict, verdict::Class::slow);
  EXPECT_TRUE(record->job_fails);
  EXPECT_EQ(record->busbw, 0.0234);
  EXPECT_THAT(record->lines, ElementsAre("nccl-check: slow n3: send/recv"));
}

TEST(Record, IsOfOneJobStepAndUser) {
  auto step = good();
  step["step"] = 7;
  EXPECT_THAT(refusal(step), HasSubstr("'step' is 7, expected null"));
  EXPECT_EQ(refusal(step, {1234, 7, 1000}), "taken");
  EXPECT_THAT(refusal(good(), {1234, 7, 1000}), HasSubstr("'step' is null, expected 7"));
  EXPECT_THAT(refusal(good(), {1235, std::nullopt, 1000}), HasSubstr("'job' is 1234, expected 1235"));
  EXPECT_THAT(refusal(good(), {1234, std::nullopt, 0}), HasSubstr("'uid' is 1000, expected 0"));
}

TEST(Record, RefusesAKeyThatIsMissingOrOfAnotherKind) {
  for (const char* key :
       {"schema", "version", "job", "uid", "node", "nodes", "spec", "verdict", "job_fails", "lines"}) {
    auto missing = good();
    missing.erase(key);
    EXPECT_THAT(refusal(missing), HasSubstr(std::string("'") + key + "' is missing")) << key;
    for (const Json& wrong :
         {Json(-1), Json(1.5), Json("x\x1b y"), Json::array({1}), Json::object(), Json(nullptr)}) {
      auto changed = good();
      changed[key] = wrong;
      if (wrong.is_string() && (std::string(key) == "node" || std::string(key) == "nodes")) continue;
      EXPECT_THAT(refusal(changed), HasSubstr(std::string("'") + key + "'")) << key << " " << wrong;
    }
  }
  for (const Json& wrong : {Json(-1), Json("1"), Json(true)}) {
    auto changed = good();
    changed["busbw"] = wrong;
    EXPECT_THAT(refusal(changed), HasSubstr("'busbw'"));
  }
}

TEST(Record, RefusesWhatIsCutOffOrTooLong) {
  const auto text = good().dump();
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_record(text.substr(0, length), of_job)) << length;
  EXPECT_FALSE(parse_record(text + "x", of_job));
  EXPECT_THAT(parse_record(text + std::string(most_record_bytes, ' '), of_job).error().text(),
              HasSubstr("at most 65536"));
  EXPECT_FALSE(parse_record(std::string(60'000, '['), of_job));
  EXPECT_FALSE(parse_record("[]", of_job));
}

TEST(Record, GivesTheUserNoControlCharacters) {
  auto json = good();
  json["lines"] = {"a\x1b[2Jb\nc"};
  EXPECT_THAT(parse_record(json.dump(), of_job)->lines, ElementsAre("a?[2Jb?c"));
}

TEST(Record, KnowsTheFirstNodeOfAList) {
  const auto first = [](const char* nodes) {
    auto json = good();
    json["nodes"] = nodes;
    const auto record = parse_record(json.dump(), of_job);
    return record ? record->first_node : record.error().text();
  };
  EXPECT_EQ(first("n1"), "n1");
  EXPECT_EQ(first("n[07-12,3],m1"), "n07");
  EXPECT_EQ(first("n[3,7]"), "n3");
  EXPECT_EQ(first("a,b[1-2]"), "a");
  EXPECT_EQ(first("r[2-3]n[5-6]-x"), "r2n5-x");
  EXPECT_EQ(first("n[1-4000000000]"), "n1");
  EXPECT_THAT(first("n[1-2"), HasSubstr("'nodes'"));
  EXPECT_THAT(first(""), HasSubstr("'nodes'"));
}

}  // namespace
}  // namespace nccl_check::spank
