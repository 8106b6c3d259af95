#include "job/localization/localization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "job/localization/schedule.hpp"

namespace nccl_check::localization {
namespace {

constexpr std::size_t least_samples = 5;  // behind a finding that can accuse; the judge's own floor

int rounds_of(Stage stage, const Settings& settings) {
  switch (stage) {
    case Stage::inside:
      return settings.inside_rounds;
    case Stage::across:
      return settings.across_rounds;
    case Stage::confirm:
      return settings.confirm_rounds;
  }
  return 0;
}

std::vector<Pair> plan(Stage stage, int round, const Ledger& ledger, const Settings& settings) {
  switch (stage) {
    case Stage::inside:
      return plan_inside(ledger, round, settings.fruitless_rounds);
    case Stage::across:
      return plan_across(ledger, settings.across_at_once);
    case Stage::confirm:
      return plan_confirm(ledger);
  }
  return {};
}

}  // namespace

Localization::Localization(std::vector<Node> nodes, Settings settings)
    : nodes_(std::move(nodes)), settings_(settings), ledger_(nodes_) {}

std::optional<Round> Localization::next_round() {
  for (const Pair pair : std::exchange(open_, {})) ledger_.add(pair, Finding::failed, 0, fresh_);
  while (!done_) {
    if (in_stage_ < rounds_of(stage_, settings_)) open_ = plan(stage_, in_stage_ + 1, ledger_, settings_);
    if (!open_.empty()) {
      ++in_stage_;
      fresh_ = settings_.all_nodes == verdict::Class::hung || stage_ == Stage::confirm;
      return Round{++number_, stage_, fresh_, open_};
    }
    in_stage_ = 0;
    done_ = stage_ == Stage::confirm;
    if (!done_) stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
  }
  return std::nullopt;
}

Status Localization::record(const Measurement& m) {
  const auto place = std::find(open_.begin(), open_.end(), m.pair);
  if (place == open_.end())
    return Error{fmt::format("nodes {} and {} are no open pair of round {}", m.pair.a, m.pair.b, number_), "",
                 "record each pair of the round once, as next_round() gave it"};
  const std::string where = nodes_[m.pair.a].name + "-" + nodes_[m.pair.b].name;
  const bool measured = m.finding != Finding::hung && m.finding != Finding::failed;
  if (measured && !(std::isfinite(m.busbw) && m.busbw > 0))
    return Error{fmt::format("{} GB/s is no bandwidth", m.busbw), where, "give the median of the iterations"};
  if (m.finding == Finding::slow && m.samples < least_samples)
    return Error{fmt::format("slow on {} samples", m.samples), where,
                 fmt::format("a pair is slow on at least {}", least_samples)};
  for (const std::size_t node : m.lost) {
    if (m.finding != Finding::failed || (node != m.pair.a && node != m.pair.b))
      return Error{fmt::format("node {} can't be lost in this measurement", node), where,
                   "only a failed pair loses nodes, and only its own"};
  }
  open_.erase(place);
  ledger_.add(m.pair, m.finding, measured ? m.busbw : 0, fresh_);
  for (const std::size_t node : m.lost) ledger_.lose(node);
  return success();
}

Outcome Localization::outcome() const {
  bool stopped = !open_.empty();
  if (!stopped) stopped = Localization(*this).next_round().has_value();
  return conclude(nodes_, ledger_, settings_.all_nodes, stopped);
}

}  // namespace nccl_check::localization
