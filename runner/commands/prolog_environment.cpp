#include "commands/prolog_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "option/spec.hpp"
#include "policy/first_look.hpp"

namespace nccl_check::commands {
namespace {

Result<std::uint32_t> number(const Lookup& lookup, const char* name, std::optional<std::uint32_t> missing) {
  const char* text = lookup(name);
  if (text == nullptr || *text == '\0') {
    if (missing) return *missing;
    return Error{"is not set", name, "start this from Slurm's prolog"};
  }
  std::uint32_t value = 0;
  const std::string_view digits(text);
  auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc{} || stop != digits.data() + digits.size())
    return Error{fmt::format("'{}' is not a number", printable(digits, 40)), name, ""};
  return value;
}

std::string text_of(const Lookup& lookup, const char* name) {
  const char* text = lookup(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::optional<std::string> option_of(const Lookup& lookup) {
  const char* text = lookup(policy::option_variable);
  if (text == nullptr) return std::nullopt;
  return std::string(option::normalise(text));
}

Result<PrologEnvironment> read_prolog_environment(const Lookup& lookup) {
  PrologEnvironment job;
  struct {
    const char* name;
    std::optional<std::uint32_t> missing;
    std::uint32_t* value;
  } const numbers[] = {{"SLURM_JOB_ID", {}, &job.job},
                       {"SLURM_JOB_UID", {}, &job.uid},
                       {"SLURM_JOB_GID", static_cast<std::uint32_t>(-1), &job.gid},
                       {"SLURM_JOB_RESTART_COUNT", 0U, &job.restart}};
  for (const auto& entry : numbers) {
    auto value = number(lookup, entry.name, entry.missing);
    if (!value) return value.error();
    *entry.value = *value;
  }
  job.partition = text_of(lookup, "SLURM_JOB_PARTITION");
  job.cluster = text_of(lookup, "SLURM_CLUSTER_NAME");
  job.node = text_of(lookup, "SLURMD_NODENAME");
  job.nodelist = text_of(lookup, "SLURM_JOB_NODELIST");
  if (job.nodelist.empty()) job.nodelist = text_of(lookup, "SLURM_NODELIST");  // before 23.02.6
  if (job.node.empty()) return Error{"is not set", "SLURMD_NODENAME", "start this from Slurm's prolog"};
  auto nodes = expand_hostlist(job.nodelist.empty() ? job.node : job.nodelist);
  if (!nodes) return nodes.error();
  job.nodes = std::move(*nodes);
  if (std::find(job.nodes.begin(), job.nodes.end(), job.node) == job.nodes.end())
    return Error{fmt::format("node {} is not of the job's nodes {}", job.node, job.nodelist),
                 "SLURMD_NODENAME", ""};
  job.option = option_of(lookup);
  return job;
}

}  // namespace nccl_check::commands
