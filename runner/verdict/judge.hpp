#pragma once
// From times to samples, and from samples to fast or slow. Pure: the caller measures, asks, and measures more
// if told to.
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::verdict {

// An operation takes as long as its slowest rank: per iteration the maximum over ranks (one vector a rank).
// An error where the ranks' counts differ, nothing was measured, or a time is not positive.
Result<std::vector<Nanoseconds>> combine(std::span<const std::vector<Nanoseconds>> ranks);

// Bus bandwidth in GB/s of each iteration; `bytes` as in busbw().
std::vector<double> rates(Operation op, int ranks, std::uint64_t bytes, std::span<const Nanoseconds> times);

// Wald's sequential test of "slow" against "healthy", on one bit a sample: is it below `line` of the limit? A
// slow pair's samples are there 95 times in 100, a healthy one's 10 times (dips, neighbours), whence the
// steps: ln(0.95 / 0.10) and ln(0.05 / 0.90). Bounds: ln(1e5), so that a healthy pair is called slow less
// than once in 100,000 (5e-7 in simulation), and -ln(1e3). So 3 fast samples clear and 6 slow ones accuse.
struct Rule {
  double line = 0.95;
  double slow_step = 2.25;
  double fast_step = -2.89;
  double slow_bound = 11.5;
  double fast_bound = -6.9;
  std::size_t least_slow = 5;  // no verdict of slow on fewer samples, whatever the steps
  std::size_t budget = 20;     // what is undecided then is a pass, and marginal
};

enum class Speed { fast, slow, undecided };

struct Judgement {
  Speed speed = Speed::undecided;
  bool more = true;     // undecided, and within the budget: measure more and ask again with all samples
  double estimate = 0;  // GB/s, the median
  double spread = 0;    // (largest - smallest) / median
  std::size_t samples = 0;
  [[nodiscard]] bool marginal() const { return speed == Speed::undecided && !more; }
  [[nodiscard]] bool slow() const { return speed == Speed::slow; }
};

// One pair, or one node by itself. All samples that were taken count, in any order. An error where the limit
// or a sample is not a positive finite number: neither may pass for fast.
Result<Judgement> judge(std::span<const double> gigabytes_per_second, double limit, const Rule& rule = {});

// The round with all nodes, which only triggers the pairs. judge() can't be used there: the slowest of many
// ranks dips nearly every time. The median of at least 3 samples is below `line` of the limit: slow. So it
// errs towards measuring pairs, and never towards accusing.
Result<Judgement> judge_trigger(std::span<const double> gigabytes_per_second, double limit,
                                const Rule& rule = {});

}  // namespace nccl_check::verdict
