#include "node/rdma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "base/units.hpp"

namespace nccl_check::node {
namespace {

constexpr const char* all_devices = "/sys/class/infiniband";
// A table has up to 256 places, mostly empty ones behind those in use; RoCE leaves small holes.
constexpr unsigned most_gids = 256, most_empty = 16;

// "4: ACTIVE"
std::string after_colon(const std::string& line) {
  const auto colon = line.find(':');
  return colon == line.npos ? "" : std::string(trim(std::string_view(line).substr(colon + 1)));
}

// "400 Gb/sec (4X NDR)", "56 Gb/sec (4X FDR)"
double rate_of(const std::string& line) {
  if (line.find("Gb/sec") == line.npos) return 0;
  const auto value = parse_number(line.substr(0, line.find(' ')));
  return value && *value > 0 ? *value * 1e9 : 0;
}

bool all_zero(const Address& address) {
  return std::all_of(address.bytes.begin(), address.bytes.end(), [](auto byte) { return byte == 0; });
}

std::vector<Gid> read_gids(Tree& tree, const std::string& folder, LinkLayer layer) {
  std::vector<Gid> out;
  unsigned empty = 0;
  // InfiniBand's first one is the port's; others are not asked for by anyone here.
  const unsigned most = layer == LinkLayer::infiniband ? 1 : most_gids;
  for (unsigned index = 0; index < most && empty < most_empty; ++index) {
    const auto line = tree.line(fmt::format("{}/gids/{}", folder, index));
    if (!line) break;
    const auto address = parse_address(*line);
    if (!address || all_zero(*address) ||
        // An unused place of an InfiniBand port has the subnet's prefix alone.
        std::all_of(address->bytes.begin() + 8, address->bytes.end(), [](auto byte) { return byte == 0; })) {
      ++empty;
      continue;
    }
    empty = 0;
    Gid gid;
    gid.index = index;
    gid.address = *address;
    gid.type = tree.line(fmt::format("{}/gid_attrs/types/{}", folder, index)).value_or("");
    gid.netdev = tree.line(fmt::format("{}/gid_attrs/ndevs/{}", folder, index)).value_or("");
    out.push_back(std::move(gid));
  }
  return out;
}

// The interface on the same device; of several, the one with this port's number.
std::string netdev_of(const Port& port, const RdmaDevice& device, const std::vector<Interface>& interfaces) {
  for (const auto& gid : port.gids)
    if (!gid.netdev.empty()) return gid.netdev;
  std::vector<const Interface*> on_device;
  for (const auto& i : interfaces)
    if (std::find(i.domains.begin(), i.domains.end(), device.name) != i.domains.end())
      on_device.push_back(&i);
  if (on_device.size() == 1) return on_device.front()->name;
  for (const auto* i : on_device)
    if (i->port && *i->port + 1 == port.number) return i->name;
  return "";
}

Port read_port(Tree& tree, const std::string& folder, const std::string& number) {
  Port port;
  std::from_chars(number.data(), number.data() + number.size(), port.number);
  if (const auto state = tree.line(folder + "/state")) port.state = after_colon(*state);
  if (!port.state.empty()) port.active = port.state == "ACTIVE";
  port.origin.set("state", folder + "/state", port.active.has_value());
  port.rate = rate_of(tree.line(folder + "/rate").value_or(""));
  port.origin.set("rate", folder + "/rate", port.rate > 0);
  const auto layer = tree.line(folder + "/link_layer").value_or("");
  port.layer = layer == "InfiniBand" ? LinkLayer::infiniband
               : layer == "Ethernet" ? LinkLayer::ethernet
                                     : LinkLayer::unknown;
  port.origin.set("link_layer", folder + "/link_layer", port.layer != LinkLayer::unknown);
  port.gids = read_gids(tree, folder, port.layer);
  port.origin.set("gids", folder + "/gids", !port.gids.empty());
  return port;
}

RdmaDevice read_device(Tree& tree, const std::string& name, const std::vector<Interface>& interfaces) {
  RdmaDevice out;
  out.name = name;
  const std::string folder = std::string(all_devices) + "/" + name;
  if (const auto device = tree.real(folder + "/device")) out.pci = pci_behind(*device);
  out.origin.set("pci", folder + "/device", !out.pci.empty());
  if (!out.pci.empty()) out.function = read_pci(tree, out.pci);
  for (const auto& number : tree.entries(folder + "/ports").value_or(std::vector<std::string>{})) {
    auto port = read_port(tree, folder + "/ports/" + number, number);
    port.netdev = netdev_of(port, out, interfaces);
    port.origin.set("netdev", folder + "/device/net", !port.netdev.empty());
    out.ports.push_back(std::move(port));
  }
  return out;
}

// mlx5_2 before mlx5_10, as people and NCCL count them.
bool by_number(const RdmaDevice& a, const RdmaDevice& b) {
  const auto digits = [](const std::string& name) {
    const auto last = name.find_last_not_of("0123456789");
    return last == name.npos ? 0 : last + 1;
  };
  const auto at_a = digits(a.name), at_b = digits(b.name);
  const auto stem_a = a.name.substr(0, at_a), stem_b = b.name.substr(0, at_b);
  if (stem_a != stem_b) return stem_a < stem_b;
  const auto size_a = a.name.size(), size_b = b.name.size();
  return size_a != size_b ? size_a < size_b : a.name < b.name;
}

}  // namespace

const char* name(LinkLayer layer) {
  return layer == LinkLayer::infiniband ? "InfiniBand"
         : layer == LinkLayer::ethernet ? "Ethernet"
                                        : "unknown";
}

bool Gid::ipv4() const {
  return std::all_of(address.bytes.begin(), address.bytes.begin() + 10, [](auto b) { return b == 0; }) &&
         address.bytes[10] == 0xff && address.bytes[11] == 0xff;
}

std::optional<std::vector<RdmaDevice>> read_rdma(Tree& tree, const std::vector<Interface>& interfaces) {
  const auto names = tree.entries(all_devices);
  if (!names) return std::nullopt;
  std::vector<RdmaDevice> out;
  for (const auto& name : *names) out.push_back(read_device(tree, name, interfaces));
  std::sort(out.begin(), out.end(), by_number);
  return out;
}

}  // namespace nccl_check::node
