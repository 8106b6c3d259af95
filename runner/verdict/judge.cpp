#include "verdict/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nccl_check::verdict {
namespace {

constexpr std::size_t least_trigger = 3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

// What both judgements share: the input checked, the median and the spread.
Result<Judgement> look(std::span<const double> values, double limit) {
  if (!positive(limit))
    return Error{fmt::format("a limit of {} GB/s can't be judged against", limit), "",
                 "it must be a positive number; where no limit is known, there is nothing to judge"};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!positive(values[i]))
      return Error{fmt::format("sample {} is {} GB/s: a bandwidth is a positive number", i + 1, values[i]),
                   "", "an iteration's time was zero, negative or lost"};
  }
  Judgement out;
  out.samples = values.size();
  if (values.empty()) return out;
  out.estimate = median({values.begin(), values.end()});
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  out.spread = (*high - *low) / out.estimate;
  return out;
}

}  // namespace

Result<std::vector<Nanoseconds>> combine(std::span<const std::vector<Nanoseconds>> ranks) {
  if (ranks.empty() || ranks[0].empty())
    return Error{"there are no times to combine", ranks.empty() ? "" : "rank 0",
                 "every rank sends one an iteration"};
  std::vector<Nanoseconds> out(ranks[0].size(), Nanoseconds::zero());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].size() != out.size())
      return Error{fmt::format("{} times, but rank 0 has {}", ranks[rank].size(), out.size()),
                   fmt::format("rank {}", rank), "every rank sends one an iteration"};
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (ranks[rank][i] <= Nanoseconds::zero())
        return Error{fmt::format("iteration {} took {} ns", i + 1, ranks[rank][i].count()),
                     fmt::format("rank {}", rank), "a time is positive"};
      out[i] = std::max(out[i], ranks[rank][i]);
    }
  }
  return out;
}

std::vector<double> rates(Operation op, int ranks, std::uint64_t bytes, std::span<const Nanoseconds> times) {
  std::vector<double> out;
  out.reserve(times.size());
  for (const Nanoseconds t : times) out.push_back(busbw(op, ranks, bytes, t));
  return out;
}

Result<Judgement> judge(std::span<const double> values, double limit, const Rule& rule) {
  Result<Judgement> out = look(values, limit);
  if (!out) return out;
  double evidence = 0;
  for (const double value : values) evidence += value < rule.line * limit ? rule.slow_step : rule.fast_step;
  if (evidence >= rule.slow_bound && values.size() >= rule.least_slow) out->speed = Speed::slow;
  if (evidence <= rule.fast_bound) out->speed = Speed::fast;
  out->more = out->speed == Speed::undecided && values.size() < rule.budget;
  return out;
}

Result<Judgement> judge_trigger(std::span<const double> values, double limit, const Rule& rule) {
  Result<Judgement> out = look(values, limit);
  if (!out) return out;
  out->more = values.size() < least_trigger;
  if (!out->more) out->speed = out->estimate < rule.line * limit ? Speed::slow : Speed::fast;
  return out;
}

}  // namespace nccl_check::verdict
