#include "commands/node.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "node/facts.hpp"
#include "node/record.hpp"

namespace nccl_check::commands {
namespace {

std::string or_unknown(const std::string& text) {
  return text.empty() ? "unknown" : text;
}
std::string size_text(const std::optional<std::uint64_t>& bytes) {
  return !bytes ? "unknown" : *bytes == node::no_limit ? "unlimited" : format_size(*bytes);
}
std::string yes_no(const std::optional<bool>& value) {
  return !value ? "unknown" : *value ? "yes" : "no";
}
std::string numa_text(const std::optional<int>& numa) {
  return numa ? fmt::format("NUMA {}", *numa) : "NUMA unknown";
}
std::string rate(double bits) {
  return bits > 0 ? fmt::format("{:g} Gbit/s", bits / 1e9) : "rate unknown";
}
std::string link_text(const node::PciLink& link) {
  return fmt::format("{} x{}", link.speed ? fmt::format("{:g} GT/s", *link.speed) : "? GT/s",
                     link.width ? fmt::format("{}", *link.width) : "?");
}

void show(const node::Gpu& gpu, std::ostream& out) {
  std::vector<std::string> near;
  for (const auto& n : gpu.nearest)
    near.push_back(fmt::format("{} ({})", n.name, node::name(n.distance.closeness)));
  out << fmt::format(
      "GPU {}  {}, {}, {} (at most {}), nearest {}\n", gpu.pci,
      gpu.model.empty() ? "model unknown, " + or_unknown(gpu.function.vendor_device()) : gpu.model,
      numa_text(gpu.function.numa), link_text(gpu.function.now), link_text(gpu.function.most),
      near.empty() ? "unknown" : join(near, " "));
}

void show(const node::RdmaDevice& device, std::ostream& out) {
  for (const auto& port : device.ports)
    out << fmt::format("RDMA {}:{}  {}, {}, {}, {}, {}{}{}\n", device.name, port.number,
                       or_unknown(port.state), rate(port.rate), node::name(port.layer),
                       or_unknown(device.pci), numa_text(device.function.numa),
                       port.netdev.empty() ? "" : ", " + port.netdev,
                       device.function.virtual_function == true ? ", a virtual function" : "");
  if (device.ports.empty()) out << fmt::format("RDMA {}  no port is known\n", device.name);
}

void show(const node::Interface& i, std::ostream& out) {
  std::vector<std::string> words{node::name(i.kind)};
  if (!i.type.empty() && i.type != words[0]) words.push_back(i.type);
  words.emplace_back(i.origin.unknown("up") ? "state unknown" : !i.up ? "down" : "up");
  if (i.up)
    words.emplace_back(i.origin.unknown("carrier") ? "carrier unknown"
                       : i.carrier                 ? "carrier"
                                                   : "no carrier");
  if (i.hardware) words.push_back(rate(i.speed));
  if (i.mtu) words.push_back(fmt::format("MTU {}", *i.mtu));
  if (!i.driver.empty()) words.push_back(i.driver);
  if (!i.pci.empty()) words.push_back(i.pci);
  if (i.usb) words.emplace_back("USB");
  if (!i.master.empty()) words.push_back("in " + i.master);
  if (!i.lower.empty()) words.push_back("of " + join(i.lower, " "));
  for (const auto& a : i.addresses) words.push_back(fmt::format("{}/{}", a.text(), a.prefix));
  if (!i.addresses_known) words.emplace_back("IPv4 addresses unknown");
  out << fmt::format("interface {}  {}\n", i.name, join(words, ", "));
}

void show(const node::System& system, std::ostream& out) {
  const auto& limits = system.limits;
  out << fmt::format("node {}, kernel {}, NVIDIA driver {}\n", or_unknown(system.host),
                     or_unknown(system.kernel), or_unknown(system.nvidia_driver));
  out << fmt::format("limits  locked memory {}, /dev/shm {}, free huge pages {}\n", size_text(limits.memlock),
                     size_text(limits.shm),
                     limits.huge_pages_free ? fmt::format("{}", *limits.huge_pages_free) : "unknown");
  out << fmt::format("GPUDirect  nvidia_peermem {}, DMA-BUF in the kernel {}\n",
                     yes_no(system.modules.peermem), yes_no(system.modules.dma_buf));
  const auto library = [&](const char* name, const node::Library& l) {
    out << fmt::format("{}  {}{}\n", name, l.path.empty() ? "in none of the usual places" : l.path,
                       l.version.empty() ? "" : ", " + l.version);
  };
  library("NCCL", system.nccl);
  library("libfabric", system.libfabric);
  library("aws-ofi-nccl", system.ofi_plugin);
}

template <class T>
void show_all(const char* what, const std::optional<std::vector<T>>& all, std::ostream& out) {
  if (!all) out << what << "  unknown\n";
  if (all && all->empty()) out << what << "  none\n";
  if (all)
    for (const auto& one : *all) show(one, out);
}

}  // namespace

int node(const NodeArguments& arguments, std::ostream& out, std::ostream& error) {
  node::Tree tree(arguments.root);
  if (!tree.there("/")) {
    error << fmt::format("there is no folder {}\n", printable(arguments.root));
    return 2;
  }
  if (!arguments.record.empty()) {
    const auto done = node::record(arguments.root, arguments.record, {"/etc/nccl.conf"});
    if (!done) {
      error << done.error().text() << '\n';
      return 2;
    }
    out << fmt::format(
        "{} files and links in {}; MAC addresses, GUIDs, UUIDs, host name and IP addresses are replaced: "
        "look it through before you give it away\n",
        *done, arguments.record);
    return 0;
  }
  const auto facts = node::read_facts(tree);
  if (arguments.json) {
    out << node::facts_json(facts);
    return 0;
  }
  show(facts.system, out);
  out << fmt::format("fabric  {}{}\n", node::name(facts.fabric),
                     facts.fabric_from.empty() ? "" : " (" + facts.fabric_from + ")");
  show_all("GPU", facts.gpus, out);
  show_all("RDMA", facts.rdma, out);
  show_all("interface", facts.interfaces, out);
  for (const auto& complaint : facts.complaints) out << complaint << '\n';
  return 0;
}

}  // namespace nccl_check::commands
