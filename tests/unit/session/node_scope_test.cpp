#include "job/session/node_scope.hpp"

#include <gmock/gmock.h>

namespace nccl_check::job {
namespace {

using engine::Figure;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using verdict::Class;
using verdict::Operation;

constexpr std::uint64_t gib = 1ULL << 30U;

// `rate` in GB/s, of bus bandwidth.
Figure figure(Operation operation, const std::string& subject, double rate, double ceiling, int ranks = 1) {
  Figure f;
  f.operation = operation;
  f.subject = subject;
  f.ranks = ranks;
  f.samples.bytes = gib;
  const double ns = static_cast<double>(gib) * verdict::bus_factor(operation, ranks) / rate;
  f.samples.times.assign(8, Nanoseconds(static_cast<long>(ns)));
  f.ceiling = ceiling;
  f.ceiling_text = ceiling > 0 ? "its own word" : "";
  return f;
}

std::vector<Figure> healthy() {
  return {figure(Operation::all_reduce, "", 327, 450, 2),
          figure(Operation::device_memory, "GPU 0 (a)", 3900, 4814),
          figure(Operation::device_memory, "GPU 1 (b)", 3900, 4814),
          figure(Operation::to_device, "GPU 1 (b)", 55, 57.6),
          figure(Operation::peer_copy, "GPU 0 with GPU 1", 370, 450)};
}

TEST(NodeScope, HealthyFiguresPass) {
  const auto finding = judge_figures(healthy(), {}, {});
  EXPECT_EQ(finding.cls, Class::pass);
  EXPECT_THAT(finding.detail, IsEmpty());
  EXPECT_THAT(finding.slow, IsEmpty());
}

TEST(NodeScope, ASlowPartIsNamedBeforeItsEffect) {
  auto figures = healthy();
  figures[0] = figure(Operation::all_reduce, "", 130, 450, 2);
  figures[2] = figure(Operation::device_memory, "GPU 1 (b)", 1900, 4814);
  const auto finding = judge_figures(figures, {}, {});
  EXPECT_EQ(finding.cls, Class::slow);
  EXPECT_THAT(finding.detail,
              HasSubstr("GPU 1 (b): device memory 1900 GB/s, limit 3370 (0.7 of its own word); "
                        "all_reduce 1 GiB on 2 GPUs: 130 GB/s busbw, limit 248 (0.55"));
  EXPECT_EQ(finding.reason, "slow GPU 1 (b): device memory 1900 < 3370 GB/s");
  EXPECT_NEAR(finding.busbw, 1900, 2);
  EXPECT_THAT(finding.slow, SizeIs(2));
}

TEST(NodeScope, OnlyWhatWasSlowBeforeIsSlowNow) {
  auto first = healthy();
  first[1] = figure(Operation::device_memory, "GPU 0 (a)", 1900, 4814);
  auto second = healthy();
  second[2] = figure(Operation::device_memory, "GPU 1 (b)", 1900, 4814);
  const auto suspect = judge_figures(first, {}, {}).slow;
  EXPECT_EQ(judge_figures(second, {}, suspect).cls, Class::pass);
  EXPECT_EQ(judge_figures(first, {}, suspect).cls, Class::slow);
}

TEST(NodeScope, WrongDataNeedsNoSecondMeasurement) {
  auto figures = healthy();
  figures[4].samples.wrong = 2;
  figures[4].samples.first_wrong = "element 7: got 1, expected 2";
  const auto finding = judge_figures(figures, {}, std::set<std::string>{});
  EXPECT_EQ(finding.cls, Class::corrupt);
  EXPECT_THAT(finding.detail, HasSubstr("GPU 0 with GPU 1: peer copy: 2 wrong elements, first element 7"));
  EXPECT_THAT(finding.reason, HasSubstr("corrupt GPU 0 with GPU 1: peer copy, 2 wrong"));
}

TEST(NodeScope, ASitesRuleComesBeforeTheHardwaresWord) {
  const Limits rules{{Operation::all_reduce, {400, "site rule, line 4"}}};
  const auto finding = judge_figures(healthy(), rules, {});
  EXPECT_EQ(finding.cls, Class::slow);
  EXPECT_THAT(finding.detail, HasSubstr("limit 400 (site rule, line 4)"));
}

TEST(NodeScope, ASmallCollectiveIsNotJudgedByItsLinks) {
  auto small = figure(Operation::all_reduce, "", 327, 450, 2);
  small.samples.bytes = 1U << 20U;  // a thousandth of the bytes in the same time
  EXPECT_EQ(figure_limit(small, {}).busbw, 0);
  EXPECT_EQ(judge_figures({small}, {}, {}).cls, Class::pass);
  EXPECT_THAT(figure_text(small, {}), HasSubstr("no limit is known"));
}

TEST(NodeScope, WithoutACpuAHostsMemoryIsNotCalledSlow) {
  auto copy = figure(Operation::memory_copy, "", 4, 0);
  const Limits rules{{Operation::memory_copy, {5, "rule"}}};
  EXPECT_EQ(judge_figures({copy}, rules, {}).cls, Class::slow);
  copy.samples.starved = 0.5;
  EXPECT_EQ(judge_figures({copy}, rules, {}).cls, Class::pass);
}

TEST(NodeScope, ManySlowFiguresAreCountedAndNotListed) {
  std::vector<Figure> figures;
  for (int i = 1; i < 8; ++i)
    figures.push_back(figure(Operation::peer_copy, "GPU 0 with GPU " + std::to_string(i), 40, 450));
  const auto finding = judge_figures(figures, {}, {});
  EXPECT_THAT(finding.detail, HasSubstr("; and 4 more"));
  EXPECT_THAT(finding.detail, Not(HasSubstr("GPU 7")));
}

TEST(NodeScope, TheCollectiveStandsForTheNodeElseItsSlowestMemory) {
  const auto figures = healthy();
  EXPECT_EQ(main_figure(figures)->operation, Operation::all_reduce);
  EXPECT_THAT(figure_text(*main_figure(figures), {260, "rule"}, "NVIDIA H200"),
              HasSubstr("all_reduce 1 GiB on 2 NVIDIA H200: 327 GB/s busbw, limit 260 (rule)"));
  const std::vector<Figure> memories{figure(Operation::device_memory, "GPU 0", 3900, 0),
                                     figure(Operation::to_device, "GPU 0", 55, 0),
                                     figure(Operation::device_memory, "GPU 1", 3800, 0)};
  EXPECT_EQ(main_figure(memories)->subject, "GPU 1");
  EXPECT_EQ(main_figure({}), nullptr);
}

}  // namespace
}  // namespace nccl_check::job
