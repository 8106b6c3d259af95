#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "environment/builtin.hpp"
#include "environment/match.hpp"
#include "environment/site.hpp"

namespace nccl_check::environment {
namespace {

using node::Vendor;

bool has(const node::Facts& facts, Vendor vendor) {
  return facts.gpus && std::any_of(facts.gpus->begin(), facts.gpus->end(),
                                   [&](const auto& gpu) { return gpu.vendor == vendor; });
}

// False: NCCL has nothing to do on this node.
bool has_work(const node::Facts& facts, const Situation& situation, Plan& plan) {
  if (!facts.gpus || has(facts, Vendor::nvidia)) return true;
  if (has(facts, Vendor::amd)) {
    plan.notes.emplace_back("no NVIDIA GPU here, but AMD's: these variables are read by RCCL");
    return true;
  }
  plan.notes.emplace_back(situation.without_gpus
                              ? "no GPU here: this is for the network alone"
                              : "no GPU here: NCCL's settings do not apply, nothing is set");
  return situation.without_gpus;
}

void set_fabric(const node::Facts& facts, const Situation& situation, Plan& plan) {
  switch (facts.fabric) {
    case node::Fabric::verbs:
      return set_verbs(facts, situation, plan);
    case node::Fabric::cxi:
      return set_slingshot(facts, situation, plan);
    case node::Fabric::efa:
      return set_efa(facts, situation, plan);
    case node::Fabric::none:
      plan.left_out.push_back({"NCCL_IB_HCA", "there is no HCA"});
      return;
    case node::Fabric::unknown:
      plan.left_out.push_back({"NCCL_IB_HCA", "what the fabric is is not known"});
  }
}

}  // namespace

const Decision* Plan::find(const std::string& variable) const {
  const auto found = std::find_if(decisions.begin(), decisions.end(),
                                  [&](const Decision& d) { return d.variable == variable; });
  return found == decisions.end() ? nullptr : &*found;
}

void note_limits(const node::Facts& facts, Plan& plan) {
  const bool rdma = facts.fabric != node::Fabric::none && facts.fabric != node::Fabric::unknown;
  if (!rdma) return;
  const auto& limits = facts.system.limits;
  // NVIDIA's and Mellanox's guides want it unlimited; a GiB is what a few connections pin.
  constexpr std::uint64_t least_memlock = 1ULL << 30U;
  if (limits.memlock && *limits.memlock < least_memlock)
    plan.notes.push_back(
        fmt::format("locked memory is limited to {} here: RDMA needs more (slurmd's LimitMEMLOCK, "
                    "not limits.conf, is what jobs get)",
                    format_size(*limits.memlock)));
  const auto& modules = facts.system.modules;
  if (has(facts, Vendor::nvidia) && modules.peermem == false && modules.dma_buf == false)
    plan.notes.emplace_back(
        "neither nvidia_peermem is loaded nor has this kernel DMA-BUF (5.12): NCCL's data goes through the "
        "host's "
        "memory");
}

Plan decide(const node::Facts& facts, const Situation& situation, const std::vector<Rule>& rules) {
  Plan plan;
  for (const auto& complaint : facts.complaints) plan.notes.push_back(complaint);
  if (has_work(facts, situation, plan)) {
    set_sockets(facts, situation, plan);
    set_fabric(facts, situation, plan);
    note_limits(facts, plan);
  }
  apply_site(rules, facts, situation, plan);
  std::stable_sort(plan.decisions.begin(), plan.decisions.end(),
                   [](const Decision& a, const Decision& b) { return a.variable < b.variable; });
  return plan;
}

}  // namespace nccl_check::environment
