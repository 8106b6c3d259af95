#include "commands/release.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <optional>

#include "base/text.hpp"
#include "policy/state/drains.hpp"
#include "policy/state/recent.hpp"
#include "policy/state/strikes.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::commands {
namespace {

constexpr auto call_limit = std::chrono::seconds(10);
const int not_done = verdict::exit_code(verdict::Class::untested);

std::string local_time(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

// The drain that stands, as this host recorded it.
std::optional<policy::DrainRecord> standing_drain(const std::vector<policy::DrainRecord>& drains) {
  for (auto drain = drains.rbegin(); drain != drains.rend(); ++drain)
    if (drain->event == policy::DrainEvent::drained || drain->event == policy::DrainEvent::unanswered)
      return *drain;
  return std::nullopt;
}

// Why the node can't be taken for repaired; empty: it passed.
std::string no_retest(const std::string& node, const policy::Paths& paths, std::int64_t drained_at) {
  const auto drains = policy::read_drains(paths.drains(), node);
  if (!drains) return drains.error().text();
  const auto drain = standing_drain(*drains);
  if (!drain) return fmt::format("this host has no record of a drain of {}: ask on {} itself", node, node);
  const auto passes = policy::read_passes(paths.recent(), node);
  if (!passes) return passes.error().text();
  const bool passed = std::any_of(passes->begin(), passes->end(), [&](const policy::Pass& pass) {
    return pass.across_nodes == drain->across_nodes && pass.time > drained_at;
  });
  if (passed) return "";
  return fmt::format("no check {} has passed there since {}",
                     drain->across_nodes ? "across nodes" : "inside the node", local_time(drained_at));
}

}  // namespace

int release(const ReleaseArguments& arguments, const policy::Paths& paths, policy::Slurm& slurm,
            std::int64_t now, std::ostream& out, std::ostream& error) {
  const std::string& node = arguments.node;
  const auto fail = [&](const std::string& why) {
    error << fmt::format("nccl-check: {} is not released: {}\n", node, why);
    return not_done;
  };
  const auto state = slurm.node(node, Deadline::in(call_limit));
  if (!state.ok()) return fail(state.why);
  if (!state.value.is("drain")) {
    out << fmt::format("nccl-check: {} is not drained\n", node);
    return 0;
  }
  if (!state.value.reason.starts_with(policy::reason_prefix))
    return fail(fmt::format("it was drained by another: '{}'", printable(state.value.reason)));
  if (!arguments.force) {
    const std::string why = no_retest(node, paths, state.value.reason_time);
    if (!why.empty()) return fail(fmt::format("{} (if you know that it is repaired: --force)", why));
  }
  const auto released = slurm.undrain(node, Deadline::in(call_limit));
  if (!released.ok())
    return fail(released.got == policy::Got::no_answer
                    ? fmt::format("no answer, it may have happened: {}", released.why)
                    : released.why);
  out << fmt::format("nccl-check: {} is released; it was drained {}: {}\n", node,
                     local_time(state.value.reason_time), printable(state.value.reason));
  // The drain's record is on the node that drained itself; elsewhere there is nothing to add to.
  const auto drains = policy::read_drains(paths.drains(), node);
  const auto drain = drains ? standing_drain(*drains) : std::nullopt;
  if (!drain) return 0;
  for (const auto& status : {policy::append_drain(paths.drains(), {now, node, policy::DrainEvent::released, 0,
                                                                   drain->across_nodes, state.value.reason}),
                             policy::clear_strikes(paths.strikes(), node)})
    if (!status) error << fmt::format("nccl-check: {}\n", status.error().text());
  return 0;
}

int release(const ReleaseArguments& arguments, const policy::Paths& paths) {
  const auto slurm = policy::make_slurm(policy::find_slurm_program(), policy::slurm_environment(environ));
  return release(arguments, paths, *slurm, std::time(nullptr), std::cout, std::cerr);
}

}  // namespace nccl_check::commands
