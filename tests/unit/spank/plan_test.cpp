#include "spank/plan.hpp"

#include <gmock/gmock.h>

#include "spank/slurm_api.hpp"

namespace nccl_check::spank {
namespace {

option::Spec spec(const char* text) {
  return std::get<option::Spec>(option::parse(text));
}

Record record(const char* words, verdict::Class verdict = verdict::Class::pass) {
  Record one;
  one.spec = spec(words);
  one.verdict = verdict;
  return one;
}

bool inside(const char* asked, std::optional<Record> found) {
  return needs_own_check(StepKind::srun, Asked{spec(asked), true}, found);
}

TEST(Plan, KnowsTheKindsOfSteps) {
  EXPECT_EQ(kind_of(SLURM_BATCH_SCRIPT), StepKind::batch);
  EXPECT_EQ(kind_of(SLURM_INTERACTIVE_STEP), StepKind::interactive);
  EXPECT_EQ(kind_of(SLURM_EXTERN_CONT), StepKind::external);
  EXPECT_EQ(kind_of(0), StepKind::srun);
}

TEST(Plan, AVerdictCoversWhatItMeasured) {
  EXPECT_TRUE(covers(spec(""), spec("")));
  EXPECT_TRUE(covers(spec(""), spec("node")));
  EXPECT_TRUE(covers(spec("node,job"), spec("")));
  EXPECT_FALSE(covers(spec("node"), spec("")));
  EXPECT_FALSE(covers(spec("node"), spec("job")));
  EXPECT_FALSE(covers(spec("job"), spec("node,job")));
  EXPECT_TRUE(covers(spec("size=1G"), spec("")));
  EXPECT_FALSE(covers(spec(""), spec("size=1G")));
  EXPECT_TRUE(covers(spec("size=1024M"), spec("size=1G")));
  EXPECT_FALSE(covers(spec(""), spec("collective=all_reduce")));
  EXPECT_TRUE(covers(spec("busbw=44"), spec("busbw=40")));
  EXPECT_FALSE(covers(spec("busbw=40"), spec("busbw=44")));
  EXPECT_FALSE(covers(spec("off"), spec("")));
  EXPECT_TRUE(covers(spec("warn"), spec("strict,time=5s")));
}

TEST(Plan, AnSrunInsideChecksWhatTheJobsVerdictDoesNotSay) {
  EXPECT_TRUE(inside("", std::nullopt));
  EXPECT_FALSE(inside("", record("")));
  EXPECT_TRUE(inside("force", record("force")));
  EXPECT_TRUE(inside("size=1G", record("")));
  EXPECT_FALSE(inside("", record("", verdict::Class::slow)));
  EXPECT_FALSE(inside("strict", record("")));
  EXPECT_TRUE(inside("strict", record("", verdict::Class::slow)));
  EXPECT_TRUE(inside("strict", record("", verdict::Class::untested)));
  EXPECT_FALSE(inside("off", std::nullopt));
}

TEST(Plan, NobodyElseDoes) {
  const Asked forced{spec("force"), true};
  for (const auto kind : {StepKind::batch, StepKind::interactive, StepKind::external})
    EXPECT_FALSE(needs_own_check(kind, forced, std::nullopt));
  EXPECT_FALSE(needs_own_check(StepKind::srun, std::nullopt, std::nullopt)) << "nothing asked, or inherited";
  EXPECT_FALSE(needs_own_check(StepKind::srun, Asked{spec("force"), false}, std::nullopt))
      << "the gate's to answer";
}

TEST(Plan, SaysWhenNobodyAnswered) {
  const Asked outside{spec(""), false};
  EXPECT_TRUE(unanswered(StepKind::batch, outside, std::nullopt));
  EXPECT_TRUE(unanswered(StepKind::interactive, outside, std::nullopt));
  EXPECT_TRUE(unanswered(StepKind::srun, outside, std::nullopt));
  EXPECT_FALSE(unanswered(StepKind::external, outside, std::nullopt));
  EXPECT_FALSE(unanswered(StepKind::srun, Asked{spec(""), true}, std::nullopt)) << "it checks by itself";
  EXPECT_FALSE(unanswered(StepKind::batch, outside, record("")));
  EXPECT_FALSE(unanswered(StepKind::batch, Asked{spec("off"), false}, std::nullopt));
  EXPECT_FALSE(unanswered(StepKind::batch, std::nullopt, std::nullopt));
}

}  // namespace
}  // namespace nccl_check::spank
