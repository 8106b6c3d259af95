// One node's verdict on itself, on stand-ins: rates as simulated, and every fault in its class, named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "base/units.hpp"
#include "nodes.hpp"

namespace nccl_check::engine::nccl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using verdict::Operation;

struct Options {
  std::vector<std::string> gpus;
  std::chrono::milliseconds deadline{20000};
  std::string flip;
};

std::string figure_text(const Figure& figure) {
  auto times = figure.samples.times;
  std::sort(times.begin(), times.end());
  const double rate =
      verdict::busbw(figure.operation, figure.ranks, figure.samples.bytes, times[times.size() / 2]);
  return std::string(verdict::name(figure.operation)) + "|" + figure.subject + "|" + format_number(rate) +
         "|" + std::to_string(figure.samples.wrong) + "|" + figure.ceiling_text + "|" + figure.remark + "|" +
         std::to_string(times.size()) + "|" + figure.samples.first_wrong;
}

// What one node says: "failure", or its figures, one a part of '~'.
std::string alone(const std::string& simulation, const Options& options = {}) {
  return run_nodes(simulation, 1,
                   [&](Engine& engine, int, const Tell&) -> std::string {
                     if (!options.flip.empty()) ::setenv("NCCL_CHECK_TEST_FLIP", options.flip.c_str(), 1);
                     auto settings = on_doubles();
                     settings.gpus = options.gpus;
                     const auto deadline = Deadline::in(options.deadline);
                     auto opened = engine.open(settings, deadline);
                     if (!opened) return text_of(opened.failure());
                     Task task;
                     task.bytes = 256U << 10U;
                     task.seed = 7;
                     auto figures = engine.measure_alone(task, deadline);
                     if (!figures) return text_of(figures.failure());
                     std::vector<std::string> texts;
                     for (const auto& figure : *figures) texts.push_back(figure_text(figure));
                     return join(texts, "~");
                   })
      .front();
}

struct Seen {
  double rate = 0;
  std::string wrong, ceiling, remark, first_wrong;
};

// By "operation|subject".
std::map<std::string, Seen> figures(const std::string& simulation, const Options& options = {}) {
  std::map<std::string, Seen> out;
  const auto text = alone(simulation, options);
  for (const auto& part : split(text, '~')) {
    const auto words = split(part, '|');
    if (words.size() != 8) {
      ADD_FAILURE() << text;
      return out;
    }
    EXPECT_EQ(words[6], "5");
    auto rate = parse_number(words[2]);
    out[words[0] + "|" + words[1]] = {rate ? *rate : 0, words[3], words[4], words[5], words[7]};
  }
  return out;
}

constexpr const char* two = "gpus = 2\nlatency = 0\nnoise = 0\n";

TEST(Alone, HealthyFiguresAreWhatIsSimulated) {
  auto seen = figures(two);
  ASSERT_EQ(seen.size(), 8U);
  for (const auto& [what, figure] : seen) {
    EXPECT_EQ(figure.wrong, "0") << what;
    EXPECT_EQ(figure.remark, "") << what;
    EXPECT_GT(figure.rate, 0) << what;
  }
  const auto rate_of = [&](const std::string& begin) {
    double found = 0;
    for (const auto& [what, figure] : seen)
      if (what.starts_with(begin)) found = figure.rate;
    return found;
  };
  EXPECT_NEAR(rate_of("device memory|GPU 1"), 4200, 4200 * 0.03);
  EXPECT_NEAR(rate_of("copy to the device|GPU 1"), 55, 55 * 0.03);
  EXPECT_NEAR(rate_of("copy from the device|GPU 0"), 55, 55 * 0.03);
  EXPECT_NEAR(rate_of("peer copy|GPU 0 with GPU 1"), 370.8, 370.8 * 0.03);
  EXPECT_NEAR(rate_of("all_reduce|"), 370.8, 370.8 * 0.1);
  EXPECT_EQ(seen["peer copy|GPU 0 with GPU 1"].ceiling, "18 NVLinks at 25.0 GB/s");
}

TEST(Alone, OneGpuHasNoBusBandwidthAndOnlyTheJobsGpusAreMeasured) {
  auto seen = figures("gpus = 4\n", {{"2"}, Milliseconds(20000), ""});
  ASSERT_EQ(seen.size(), 3U);
  for (const auto& [what, figure] : seen) EXPECT_THAT(what, HasSubstr("GPU 2 "));
}

TEST(Alone, EightGpusInSevenRounds) {
  const auto seen = figures("gpus = 8\n");
  EXPECT_EQ(seen.size(), 1U + 8 + 16 + 28);
}

TEST(Alone, ASlowLinkShowsInItsPairAlone) {
  auto seen = figures(std::string("gpus = 3\nnoise = 0\nlatency = 0\n") +
                      "[fault slow_link]\ngpu = 0\npeer = 2\nfactor = 0.5\n");
  EXPECT_NEAR(seen["peer copy|GPU 0 with GPU 2"].rate, 185.4, 10);
  EXPECT_NEAR(seen["peer copy|GPU 0 with GPU 1"].rate, 370.8, 15);
  EXPECT_NEAR(seen["peer copy|GPU 1 with GPU 2"].rate, 370.8, 15);
}

TEST(Alone, ThrottlingIsRemarked) {
  auto seen = figures(std::string(two) + "[fault throttled]\ngpu = 1\nreason = power_brake\n");
  EXPECT_THAT(seen["all_reduce|"].remark, AllOf(HasSubstr("GPU 1 ("), HasSubstr("power brake")));
}

TEST(Alone, AFlippedBitIsSeenInEveryOperation) {
  for (const std::string flip : {"all_reduce", "device memory", "peer copy", "to_device", "from_device"}) {
    const auto seen = figures(two, {{}, Milliseconds(20000), flip});
    int wrong = 0;
    for (const auto& [what, figure] : seen) {
      if (figure.wrong == "0") continue;
      ++wrong;
      EXPECT_EQ(figure.wrong, "1") << what;
      EXPECT_THAT(figure.first_wrong, AllOf(HasSubstr("GPU 0 ("), HasSubstr("expected"))) << what;
      if (!flip.ends_with("_device")) {
        EXPECT_THAT(what, StartsWith(flip));
      }
    }
    EXPECT_EQ(wrong, 1) << flip;
  }
}

TEST(Alone, CorruptOperationsAreSeen) {
  for (const std::string stage : {"memory", "peer_copy", "host_copy", "collective"}) {
    const auto seen = figures(std::string(two) + "[fault corrupt]\ngpu = 1\nstage = " + stage + "\n");
    EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](const auto& one) {
      return one.second.wrong != "0";
    })) << stage;
  }
}

struct Fault {
  const char* name;
  const char* text;
  const char* cls;
  const char* says;
};

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, EndInTheirClassAndAreNamed) {
  const auto& fault = GetParam();
  Options options;
  options.deadline = Milliseconds(std::string(fault.cls) == "hung" ? 3000 : 20000);
  const auto begin = Clock::now();
  const auto said = alone(std::string(two) + fault.text, options);
  EXPECT_THAT(said, AllOf(StartsWith(fault.cls), HasSubstr(fault.says)));
  if (options.deadline < Milliseconds(4000)) {
    EXPECT_LT(Clock::now() - begin, Milliseconds(6000));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Alone, Faults,
    testing::Values(
        Fault{"not_ready", "[fault cuda_error]\nstage = init\ncode = 802\n", "broken", "fabric manager"},
        Fault{"unknown", "[fault cuda_error]\nstage = context\ngpu = 1\ncode = 999\n", "broken", "GPU 1 ("},
        Fault{
            "memory_full",
            "[fault cuda_error]\nstage = allocate\ngpu = 1\ncode = 2\n[fault busy]\ngpu = 1\nvalue = 4321\n",
            "untested", "4321"},
        Fault{"kernel", "[fault cuda_error]\nstage = kernel\ngpu = 0\ncode = 719\n", "broken", "GPU 0 ("},
        Fault{"mismatch", "[fault nvml_error]\ncode = 18\n", "broken", "reload the nvidia modules"},
        Fault{"ecc", "[fault ecc_errors]\ngpu = 1\nvalue = 2\n", "broken", "2 uncorrected ECC errors"},
        Fault{"remap", "[fault row_remap]\ngpu = 0\nreason = pending\n", "broken", "row remapping waits"},
        Fault{"links", "[fault nvlinks_down]\ngpu = 1\nlink = 3\n", "broken",
              "17 of 18 NVLinks are up (down: 3)"},
        Fault{"width", "[fault pcie_width]\ngpu = 1\nvalue = 8\n", "broken", "x8 of x16"},
        Fault{"mig", "[fault mig]\ngpu = 0\n", "untested", "MIG"},
        Fault{"exclusive", "[fault exclusive_process]\ngpu = 1\n[fault busy]\ngpu = 1\nvalue = 99\n",
              "untested", "99"},
        Fault{"driver", "driver = 12080\n", "untested", "12.8"},
        Fault{"nccl", "nccl = 21705\n", "untested", "2.17.5"},
        Fault{"nccl_fails",
              "[fault nccl_error]\nstage = collective\ngpu = 1\ncode = 2\ntext = ibv_poll_cq failed\n",
              "untested", "ibv_poll_cq failed"},
        Fault{"hang_init", "[fault hang]\nstage = init\n", "hung", "CUDA driver"},
        Fault{"hang_context", "[fault hang]\nstage = context\ngpu = 1\n", "hung", "GPU 1 ("},
        Fault{"hang_kernel", "[fault hang]\nstage = kernel\ngpu = 0\n", "hung", "GPU 0 ("},
        Fault{"hang_comm_init", "[fault hang]\nstage = comm_init\ngpu = 1\n", "hung",
              "NCCL's initialisation"},
        Fault{"hang_collective", "[fault hang]\nstage = collective\ngpu = 1\n", "hung", "all_reduce"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Alone, AMissingGpuIsBrokenAndNamed) {
  const auto said = alone("gpus = 4\n[fault missing_gpu]\ngpu = 2\n", {{"1", "2"}, Milliseconds(20000), ""});
  EXPECT_THAT(said, AllOf(StartsWith("broken"), HasSubstr("GPU 2 of this job is not there")));
  auto others = figures("gpus = 4\n[fault missing_gpu]\ngpu = 2\n", {{"1", "3"}, Milliseconds(20000), ""});
  EXPECT_EQ(others.count("peer copy|GPU 1 with GPU 3"), 1U);
}

}  // namespace
}  // namespace nccl_check::engine::nccl
