#include "commands/env.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.hpp"
#include "commands/env_output.hpp"
#include "environment/in_force.hpp"
#include "environment/remarks.hpp"
#include "node/facts.hpp"

namespace nccl_check::commands {
namespace {

using environment::Situation;

std::string variable(const char* const* entries, const std::string& name) {
  for (; entries != nullptr && *entries != nullptr; ++entries)
    if (std::strncmp(*entries, name.c_str(), name.size()) == 0 && (*entries)[name.size()] == '=')
      return *entries + name.size() + 1;
  return "";
}

std::optional<unsigned> number(const std::string& text) {
  unsigned value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Situation situation_of(const EnvArguments& arguments, const Surroundings& around, const node::Facts& facts,
                       node::Tree& tree) {
  Situation out;
  const bool here = tree.live();
  out.node = here ? variable(around.environment, "SLURMD_NODENAME") : "";
  if (out.node.empty()) out.node = facts.system.host.substr(0, facts.system.host.find('.'));
  if (here) out.partition = variable(around.environment, "SLURM_JOB_PARTITION");
  out.nodes = arguments.nodes;
  if (!out.nodes && here) out.nodes = number(variable(around.environment, "SLURM_JOB_NUM_NODES"));
  out.nccl = environment::parse_version(arguments.nccl.empty() ? facts.system.nccl.version : arguments.nccl);
  out.exists = [&tree](const std::string& path) { return tree.real(path).has_value(); };
  out.without_gpus = arguments.without_gpus;
  return out;
}

}  // namespace

int env(const EnvArguments& arguments, const Surroundings& around, std::ostream& out, std::ostream& error) {
  if (!arguments.nccl.empty() && !environment::parse_version(arguments.nccl)) {
    error << fmt::format("'{}' is no version of NCCL: give one such as 2.28.9\n", printable(arguments.nccl));
    return 2;
  }
  node::Tree tree(arguments.root);
  if (!tree.there("/")) {
    error << fmt::format("there is no folder {}\n", printable(arguments.root));
    return 2;
  }
  EnvReport report;
  const auto facts = node::read_facts(tree);
  const auto situation = situation_of(arguments, around, facts, tree);
  report.node = situation.node;
  report.nccl = situation.nccl ? situation.nccl->text() : "";
  report.nccl_from = arguments.nccl.empty() ? facts.system.nccl.path : "--nccl";
  // Another node's tree does not run under this process's environment.
  const auto set = environment::of_interest(tree.live() ? around.environment : nullptr);
  std::vector<environment::BadLine> bad;
  const auto files = environment::conf_files(tree, set, tree.live() ? around.home : "", situation.nccl, bad);
  report.in_force = environment::merge(set, files);
  report.in_force.bad_lines.insert(report.in_force.bad_lines.begin(), bad.begin(), bad.end());
  report.remarks = environment::remark(report.in_force, facts, situation);
  report.plan = environment::decide(facts, situation, around.rules);
  environment::keep_what_is_set(report.in_force, report.plan);
  out << (arguments.shell ? env_shell(report) : arguments.json ? env_json(report) : env_table(report));
  return 0;
}

}  // namespace nccl_check::commands
