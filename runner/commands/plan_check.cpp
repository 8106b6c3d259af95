#include "commands/plan_check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "base/text.hpp"
#include "base/units.hpp"
#include "job/rendezvous/address.hpp"
#include "policy/slurm_calls.hpp"

namespace nccl_check::commands {
namespace {

using verdict::Operation;

// The memory scope: enough to leave the caches, little enough to be touched for the first time in a moment.
constexpr std::uint64_t alone_bytes = 32U << 20U;
// Enough for a verdict of slow (verdict::Rule).
constexpr int alone_iterations = 6;
constexpr int gpu_iterations = 8;
constexpr std::uint64_t most_gpu_bytes = 1ULL << 30U;  // of each GPU's memory
// What the coordinator keeps of the deadline, so that every node has the verdict by then.
constexpr auto for_delivery = Milliseconds(300);
constexpr auto to_act = Milliseconds(1800);

}  // namespace

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return n > 0 ? std::string(path.data(), static_cast<std::size_t>(n)) : "/usr/bin/nccl-check";
}

CheckSetup plan_check(const policy::Config& config, const policy::Plan& plan, const option::Spec& spec,
                      const Parties& parties) {
  CheckSetup setup;
  setup.program = own_program();
  setup.node = parties.node;
  setup.verdict_by = Deadline::in(plan.deadline);
  setup.return_by = Deadline(setup.verdict_by.at() + to_act);
  setup.ports = {config.ports.first, config.ports.last};

  auto& c = setup.coordinator;
  c.nodes = parties.nodes;
  c.node_scope = plan.scopes.node;
  c.job_scope = plan.scopes.job && parties.nodes.size() > 1;
  c.collective = plan.collective;
  const bool wants_gpus = plan.engine == policy::EngineChoice::nccl ||
                          (plan.engine == policy::EngineChoice::automatic && !parties.gpus.empty());
  c.most_bytes = wants_gpus ? std::min(plan.size, most_gpu_bytes) : engine::Settings{}.most_bytes;
  // The site's size is for GPUs; over a network of the hosts' own the coordinator finds a size by itself.
  // What a user names is taken as it is.
  c.size = spec.size ? std::min(plan.size, c.most_bytes) : 0;
  c.wanted_busbw = plan.wanted_busbw;
  c.budget_ms = std::max<std::int64_t>((plan.deadline - for_delivery).count(), 50);
  c.join_ms = plan.join.count();

  auto& p = setup.participant;
  p.deadline = setup.verdict_by;
  p.engine.provider = config.provider;
  p.engine.interfaces = config.interfaces;
  p.engine.engine = wants_gpus ? "nccl" : "fabric";
  p.engine.library = wants_gpus ? config.nccl_library : config.library;
  p.engine.cuda_library = config.cuda_library;
  p.engine.nvml_library = config.nvml_library;
  p.engine.gpus = parties.gpus;
  p.engine.most_bytes = c.most_bytes;
  p.join.settings = policy::fingerprint(config, plan);
  p.join.settings["nccl-check"] = NCCL_CHECK_VERSION;
  for (auto operation :
       {Operation::all_reduce, Operation::all_gather, Operation::send_recv, Operation::memory_copy,
        Operation::device_memory, Operation::peer_copy, Operation::to_device, Operation::from_device}) {
    const std::uint64_t bytes = spec.size ? plan.size : std::numeric_limits<std::uint64_t>::max();
    if (const auto* rule = policy::find_limit(config, {parties.node}, parties.partition, operation, bytes,
                                              static_cast<int>(parties.gpus.size())))
      p.join.limits[operation] = {rule->busbw, rule->note.empty()
                                                   ? fmt::format("site rule, line {}", rule->line)
                                                   : printable(rule->note, 60)};
  }
  if (plan.scopes.node) {
    engine::Task task;
    task.operation = wants_gpus ? Operation::all_reduce : Operation::memory_copy;
    task.bytes = wants_gpus ? c.most_bytes : alone_bytes;
    task.warmups = wants_gpus ? 2 : 1;
    task.iterations = wants_gpus ? gpu_iterations : alone_iterations;
    p.alone = task;
  }
  if (wants_gpus && parties.gpus.empty()) {  // those of other jobs are none of this one's
    p.join.participation = job::Participation::untested;
    p.join.why = "the configuration names the engine nccl, and the job has no GPU on this node";
  }
  return setup;
}

std::vector<std::string> gpu_list(const char* text) {
  std::vector<std::string> gpus;
  if (text == nullptr) return gpus;
  for (const auto& word : split(text, ',')) {
    const auto name = std::string(trim(word));
    if (name.empty()) continue;
    const auto ends = split(name, '-');
    const auto first = parse_number(ends.front());
    const auto last = parse_number(ends.back());
    if (ends.size() != 2 || !first || !last || *last < *first || *last - *first > 1024) {
      gpus.push_back(name);
      continue;
    }
    for (auto i = static_cast<int>(*first); i <= static_cast<int>(*last); ++i)
      gpus.push_back(std::to_string(i));
  }
  return gpus;
}

std::string config_problem(const std::vector<Error>& errors) {
  return fmt::format("the site's configuration can't be used: {}{}", errors.front().text(),
                     errors.size() > 1 ? fmt::format(", and {} more", errors.size() - 1) : "");
}

void meet(CheckSetup& setup, const std::string& slurm_program, Deadline deadline) {
  setup.accepted_uid = ::geteuid();
  if (!slurm_program.empty())
    setup.topology_command = {slurm_program, "topology", compress_hostlist(setup.coordinator.nodes)};
  if (setup.coordinator.nodes.size() < 2) return;
  const auto environment = policy::slurm_environment(environ);
  std::vector<rendezvous::AddressSource> sources;
  if (!slurm_program.empty()) sources.push_back(rendezvous::slurm_table(slurm_program, environment));
  sources.push_back(rendezvous::resolver());
  if (!slurm_program.empty()) sources.push_back(rendezvous::slurm_controller(slurm_program, environment));
  // The first node has its coordinator to itself; by which device its peers are reached, the second one's
  // address tells.
  const bool first = setup.node == setup.coordinator.nodes.front();
  auto found = rendezvous::find_addresses(setup.coordinator.nodes[first ? 1 : 0], sources, deadline);
  if (found) setup.participant.engine.toward = found->front();
  if (first) {
    setup.root_addresses = {"127.0.0.1", "::1"};
  } else if (found) {
    setup.root_addresses = *found;
  } else {
    setup.address_problem = found.error().text();
  }
}

}  // namespace nccl_check::commands
