#include "node/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace nccl_check::node {
namespace {

struct Nic {
  std::string name;
  PciFunction function;
};

void add_nic(std::vector<Nic>& out, const std::string& name, const PciFunction& function) {
  out.push_back({name, function});
}

// What carries NCCL's data: RDMA devices and Slingshot's NICs; where there is neither, network hardware.
std::vector<Nic> nics_of(const Facts& facts) {
  std::vector<Nic> out;
  if (facts.rdma)
    for (const auto& device : *facts.rdma)
      if (!device.pci.empty()) add_nic(out, device.name, device.function);
  if (facts.interfaces)
    for (const auto& i : *facts.interfaces)
      if (is_cxi(i)) add_nic(out, i.name, i.function);
  if (!out.empty() || !facts.interfaces) return out;
  for (const auto& i : *facts.interfaces)
    if (!i.pci.empty() && !i.usb) add_nic(out, i.name, i.function);
  return out;
}

void find_nearest(Gpu& gpu, const std::vector<Nic>& nics) {
  gpu.nearest.clear();
  Distance best;
  for (const auto& nic : nics) best = std::min(best, distance(gpu.function, nic.function));
  gpu.origin.set("nearest", gpu.function.origin.from("path"), best.closeness != Closeness::unknown);
  if (best.closeness == Closeness::unknown) return;
  for (const auto& nic : nics)
    if (distance(gpu.function, nic.function) == best)
      gpu.nearest.push_back({nic.name, nic.function.address, best});
}

bool carries_verbs(const RdmaDevice& device) {
  return !device.pci.empty() && !device.ports.empty() && !is_efa(device);
}

void find_fabric(Facts& facts) {
  facts.fabric = facts.interfaces && facts.rdma ? Fabric::none : Fabric::unknown;
  facts.fabric_from = "/sys/class/net, /sys/class/infiniband";
  const auto because = [&](Fabric fabric, const std::string& name, const PciFunction& function) {
    facts.fabric = fabric;
    facts.fabric_from = fmt::format("{} ({}, {})", name, function.address, function.vendor_device());
  };
  if (facts.interfaces)
    for (const auto& i : *facts.interfaces)
      if (is_cxi(i)) return because(Fabric::cxi, i.name, i.function);
  if (!facts.rdma) return;
  for (const auto& device : *facts.rdma)
    if (is_efa(device)) return because(Fabric::efa, device.name, device.function);
  for (const auto& device : *facts.rdma)
    if (carries_verbs(device)) return because(Fabric::verbs, device.name, device.function);
}

}  // namespace

const char* name(Fabric fabric) {
  constexpr std::array<const char*, 5> names{"unknown", "none", "verbs", "efa", "cxi"};
  return names.at(static_cast<std::size_t>(fabric));
}

bool is_cxi(const Interface& interface) {
  // 17db:0501 is Cassini 1, 0502 Cassini 2 (pci.ids: Cray, HPE Slingshot).
  return interface.function.vendor_device().starts_with("17db:05") ||
         std::any_of(interface.domains.begin(), interface.domains.end(),
                     [](const auto& d) { return d.starts_with("cxi"); });
}

bool is_efa(const RdmaDevice& device) {
  return device.function.driver == "efa" || device.function.vendor_device().starts_with("1d0f:efa");
}

void relate(Facts& facts) {
  find_fabric(facts);
  if (!facts.gpus) return;
  const auto nics = nics_of(facts);
  for (auto& gpu : *facts.gpus) find_nearest(gpu, nics);
}

Facts read_facts(Tree& tree) {
  Facts facts;
  facts.system = read_system(tree);
  if (auto links = read_links(tree); !links) {
    facts.complaints.push_back(links.error().text());
  } else if (links->empty() && !tree.live()) {
    facts.complaints.emplace_back(
        "no interfaces are known: neither /sys/class/net nor what rtnetlink said is in the tree "
        "(`ip -br addr` shows them on the node)");
  } else {
    facts.interfaces = read_interfaces(tree, *links);
  }
  facts.rdma = read_rdma(tree, facts.interfaces.value_or(std::vector<Interface>{}));
  // Without the folder there is no RDMA stack, if this is a /sys at all.
  if (!facts.rdma && tree.there("/sys/class/net")) facts.rdma.emplace();
  facts.gpus = read_gpus(tree);
  if (!facts.gpus) facts.complaints.emplace_back("no GPUs are known: /sys/bus/pci/devices can't be read");
  relate(facts);
  return facts;
}

}  // namespace nccl_check::node
