#include "policy/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"

namespace nccl_check::policy {
namespace {

std::string scope_words(const Scopes& scopes) {
  return scopes.node && scopes.job ? "node, job" : (scopes.node ? "node" : "job");
}

Plan no_check(const JobFacts& job, std::string why) {
  Plan plan;
  plan.why_not = std::move(why);
  plan.tell = job.asked;
  return plan;
}

}  // namespace

verdict::Operation operation(option::Collective c) {
  switch (c) {
    case option::Collective::all_reduce:
      return verdict::Operation::all_reduce;
    case option::Collective::all_gather:
      return verdict::Operation::all_gather;
    case option::Collective::send_recv:
      return verdict::Operation::send_recv;
  }
  return verdict::Operation::all_reduce;
}

Plan decide(const Config& config, const JobFacts& job, const option::Spec& spec) {
  if (job.disabled) return no_check(job, "checks are switched off on this node (/etc/nccl-check/disabled)");
  if (config.when == When::never) return no_check(job, "the site checks no jobs (when = \"never\")");
  if (config.when == When::requested && !job.asked) return no_check(job, "not asked for");
  if (!config.partitions.empty() &&
      std::find(config.partitions.begin(), config.partitions.end(), job.partition) == config.partitions.end())
    return no_check(job,
                    fmt::format("the site does not check jobs of partition {}", printable(job.partition)));

  Plan plan;
  if (spec.off) {
    if (config.when == When::requested || config.users_may_decline) return no_check(job, "declined (off)");
    plan.notes.emplace_back("the site does not let users decline the check (off)");
  }

  const bool named = spec.node || spec.job;
  const Scopes wanted = named ? Scopes{spec.node, spec.job} : config.scopes;
  plan.scopes = {wanted.node && config.scopes.node, wanted.job && config.scopes.job};
  if (!plan.scopes.node && !plan.scopes.job)
    return no_check(job, fmt::format("the site offers the scope {} only", scope_words(config.scopes)));
  if (!(plan.scopes == wanted))
    plan.notes.push_back(fmt::format("the site offers the scope {} only", scope_words(config.scopes)));
  if (job.nodes < 2) {
    if (!plan.scopes.node) return no_check(job, "one node alone has nothing to check across nodes (job)");
    plan.scopes.job = false;
  }

  plan.deadline = config.deadline;
  if (spec.time) {
    plan.deadline = std::min(*spec.time, config.deadline);
    plan.users_time = *spec.time < config.deadline;
    if (*spec.time > config.deadline)
      plan.notes.push_back(fmt::format("time={} is capped at the site's {}", format_seconds(*spec.time),
                                       format_seconds(config.deadline)));
  }
  plan.join = std::min(config.join, plan.deadline);
  plan.reuse = spec.force ? milliseconds(0) : config.reuse;
  plan.engine = config.engine;
  plan.size = spec.size.value_or(config.size);
  plan.users_size = plan.size < config.size;
  plan.collective = spec.collective ? operation(*spec.collective) : config.collective;
  plan.wanted_busbw = spec.busbw.value_or(0);
  plan.consequence = spec.consequence;
  plan.check = true;
  return plan;
}

std::map<std::string, std::string> fingerprint(const Config& config, const Plan& plan) {
  return {{"engine", std::string(name(plan.engine))},
          {"size", fmt::format("{}", plan.size)},
          {"collective", std::string(verdict::name(plan.collective))},
          {"scopes", scope_words(plan.scopes)},
          {"deadline", fmt::format("{} ms", plan.deadline.count())},
          {"provider", config.provider}};
}

}  // namespace nccl_check::policy
