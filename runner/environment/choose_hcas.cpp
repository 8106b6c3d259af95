#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "environment/choice.hpp"

namespace nccl_check::environment {
namespace {

using node::LinkLayer;
using Ports = std::vector<ChosenPort>;

std::string title(const ChosenPort& p) {
  return p.device->ports.size() > 1 ? fmt::format("{}:{}", p.device->name, p.port->number) : p.device->name;
}

// Takes out what fails the test, and says why of each; takes nothing where that would leave nothing and
// `needed` is false.
void keep(Ports& ports, std::vector<LeftOut>& left_out, bool needed,
          const std::function<std::string(const ChosenPort&)>& objection) {
  Ports kept;
  std::vector<LeftOut> out;
  for (const auto& p : ports) {
    auto why = objection(p);
    if (why.empty())
      kept.push_back(p);
    else
      out.push_back({title(p), std::move(why)});
  }
  if (kept.empty() && !needed) return;
  ports = std::move(kept);
  left_out.insert(left_out.end(), out.begin(), out.end());
}

std::string unusable(const ChosenPort& p) {
  if (p.device->pci.empty()) return "no hardware is known behind it (soft RoCE, a coprocessor's)";
  if (p.port->active == false) return fmt::format("port {} is {}", p.port->number, p.port->state);
  return "";
}

const node::Interface* netdev(const node::Facts& facts, const std::string& name) {
  if (!facts.interfaces || name.empty()) return nullptr;
  const auto found = std::find_if(facts.interfaces->begin(), facts.interfaces->end(),
                                  [&](const node::Interface& i) { return i.name == name; });
  return found == facts.interfaces->end() ? nullptr : &*found;
}

std::string part_of_bond(const ChosenPort& p, const node::Facts& facts) {
  const auto* i = netdev(facts, p.port->netdev);
  // A bond's own HCA (mlx5_bond_0) has the bond for its interface, or parts of it and no other HCA beside.
  if (i == nullptr || i->master.empty() || p.device->name.find("bond") != std::string::npos) return "";
  return fmt::format("its interface {} is a port of {}: management or storage", i->name, i->master);
}

// The devices that share a switch with some GPU, each GPU's nearest.
std::set<std::string> near_gpus(const Ports& ports, const node::Facts& facts) {
  std::set<std::string> out;
  for (const auto& gpu : facts.gpus.value_or(std::vector<node::Gpu>{})) {
    node::Distance best;
    for (const auto& p : ports) best = std::min(best, node::distance(gpu.function, p.device->function));
    if (best.closeness > node::Closeness::pxb) continue;
    for (const auto& p : ports)
      if (node::distance(gpu.function, p.device->function) == best) out.insert(p.device->name);
  }
  return out;
}

void keep_near(Ports& ports, std::vector<LeftOut>& left_out, const node::Facts& facts) {
  const auto near = near_gpus(ports, facts);
  if (near.empty()) return;
  keep(ports, left_out, false, [&](const ChosenPort& p) {
    return near.count(p.device->name) != 0 ? std::string() : "not on a GPU's PCIe switch, as others are";
  });
}

void keep_fast(Ports& ports, std::vector<LeftOut>& left_out) {
  double best = 0;
  for (const auto& p : ports) best = std::max(best, p.port->rate);
  keep(ports, left_out, false, [&](const ChosenPort& p) {
    if (p.port->rate == 0 || p.port->rate >= best) return std::string();
    return fmt::format("{}, others have {}", rate_text(p.port->rate), rate_text(best));
  });
}

double sum(const Ports& ports) {
  double out = 0;
  for (const auto& p : ports) out += p.port->rate;
  return out;
}

// A fast storage NIC far from the GPUs, and a slow management NIC near one: whichever order leaves more to
// NCCL is right.
void keep_best(Hcas& hcas, const node::Facts& facts) {
  Hcas near_first = hcas, fast_first = hcas;
  keep_near(near_first.ports, near_first.left_out, facts);
  keep_fast(near_first.ports, near_first.left_out);
  keep_fast(fast_first.ports, fast_first.left_out);
  keep_near(fast_first.ports, fast_first.left_out, facts);
  hcas = sum(fast_first.ports) > sum(near_first.ports) ? fast_first : near_first;
}

void keep_one_layer(Hcas& hcas) {
  keep(hcas.ports, hcas.left_out, false, [](const ChosenPort& p) {
    return p.port->layer == LinkLayer::infiniband ? std::string() : "RoCE, beside InfiniBand ports";
  });
}

std::string reason(const Hcas& hcas, const node::Facts& facts) {
  double rate = 0;
  bool stated = true;
  for (const auto& p : hcas.ports) {
    rate = std::max(rate, p.port->rate);
    stated = stated && p.port->active.has_value();
  }
  const bool near = !near_gpus(hcas.ports, facts).empty();
  return fmt::format("{} {} port{}{}{}", hcas.ports.size(), stated ? "active" : "possibly active",
                     hcas.ports.size() == 1 ? "" : "s",
                     rate > 0 ? " at " + rate_text(rate) : ", rate unknown",
                     near ? ", on the GPUs' PCIe switches" : "");
}

}  // namespace

std::string rate_text(double bits) {
  if (bits <= 0) return "an unknown rate";
  return bits >= 1e9 ? fmt::format("{:g} Gbit/s", bits / 1e9) : fmt::format("{:g} Mbit/s", bits / 1e6);
}

Hcas choose_hcas(const node::Facts& facts) {
  Hcas out;
  if (!facts.rdma) return out;
  for (const auto& device : *facts.rdma) {
    if (device.ports.empty() && device.pci.empty())
      out.left_out.push_back({device.name, "no hardware and no port is known of it"});
    for (const auto& port : device.ports) out.ports.push_back({&device, &port});
  }
  keep(out.ports, out.left_out, true, unusable);
  keep(out.ports, out.left_out, false, [&](const ChosenPort& p) { return part_of_bond(p, facts); });
  keep_best(out, facts);
  keep_one_layer(out);
  if (!out.ports.empty()) out.why = reason(out, facts);
  return out;
}

}  // namespace nccl_check::environment
