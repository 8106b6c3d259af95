#include "node/interfaces.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "node/pci.hpp"

namespace nccl_check::node {
namespace {

std::optional<Address> from_sockaddr(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  Address address;
  if (from->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, from, sizeof in);
    std::memcpy(address.bytes.data(), &in.sin_addr, 4);
    return address;
  }
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, from, sizeof in);
    address.family = Address::Family::v6;
    std::memcpy(address.bytes.data(), &in.sin6_addr, 16);
    return address;
  }
  return std::nullopt;
}

Kind by_type(const std::string& type) {
  if (type == "bridge") return Kind::bridge;
  if (type == "bond") return Kind::bond;
  if (type == "vlan") return Kind::vlan;
  if (type == "veth") return Kind::veth;
  if (type == "tun" || type == "vxlan" || type == "geneve" || type == "gre" || type == "ipip" ||
      type == "sit" || type == "wireguard" || type == "ip6tnl" || type == "gretap")
    return Kind::tunnel;
  return Kind::virtual_device;
}

// What an interface is by its folder in sysfs, and which file said so.
Kind by_files(Tree& tree, const std::string& folder, bool device, std::string& said) {
  const auto is = [&](const char* file) {
    if (!tree.there(folder + file)) return false;
    said = folder + file;
    return true;
  };
  said = folder + "/type";
  const auto type = tree.number(folder + "/type");
  if (type == ARPHRD_LOOPBACK) return Kind::loopback;
  if (is("/bridge")) return Kind::bridge;
  if (is("/bonding")) return Kind::bond;
  if (is("/tun_flags")) return Kind::tunnel;
  if (const auto uevent = tree.text(folder + "/uevent");
      uevent && uevent->find("DEVTYPE=vlan\n") != uevent->npos) {
    said = folder + "/uevent";
    return Kind::vlan;
  }
  if (type == ARPHRD_INFINIBAND) return Kind::infiniband;
  if (device && type == ARPHRD_ETHER) return Kind::ethernet;
  if (type && type != ARPHRD_ETHER) return Kind::tunnel;
  // A virtual device whose other end is another interface, not one below it.
  const auto other = tree.number(folder + "/iflink");
  if (type && other && other != tree.number(folder + "/ifindex") && *other != 0 &&
      tree.entries(folder, "lower_").value_or(std::vector<std::string>{}).empty() && is("/iflink"))
    return Kind::veth;
  return type ? Kind::virtual_device : Kind::unknown;
}

void read_device(Tree& tree, const std::string& folder, Interface& out) {
  const auto device = tree.real(folder + "/device");
  out.device = device ? last_part(*device) : "device";
  out.hardware = true;
  out.origin.read("device", folder + "/device");
  for (const char* stack : {"infiniband", "cxi"})
    for (auto& domain : tree.entries(folder + "/device/" + stack).value_or(std::vector<std::string>{}))
      out.domains.push_back(std::move(domain));
  if (!device) return;
  out.usb = device->find("/usb") != device->npos;
  out.pci = pci_behind(*device);
  if (const auto driver = tree.real(folder + "/device/driver")) out.driver = last_part(*driver);
  out.origin.set("driver", folder + "/device/driver", !out.driver.empty());
  out.origin.set("pci", folder + "/device", !out.pci.empty());
  if (!out.pci.empty()) out.function = read_pci(tree, out.pci);
}

void read_details(Tree& tree, const std::string& folder, Interface& out) {
  const bool device = tree.there(folder + "/device");
  std::string said;
  const Kind kind = by_files(tree, folder, device, said);
  // rtnetlink's word says more of a software device than sysfs does.
  if (kind == Kind::virtual_device && !out.type.empty()) {
    out.kind = by_type(out.type);
  } else if (kind != Kind::unknown) {
    out.kind = kind;
    out.origin.read("kind", said);
  }
  if (const auto master = tree.real(folder + "/master")) out.master = last_part(*master);
  out.enslaved = tree.there(folder + "/master");
  out.origin.read("master", folder + "/master");
  if (const auto carrier = tree.number(folder + "/carrier")) {
    out.carrier = out.up && *carrier == 1;
    out.origin.read("carrier", folder + "/carrier");
  }
  if (device) read_device(tree, folder, out);
  for (const auto& entry : tree.entries(folder, "lower_").value_or(std::vector<std::string>{}))
    out.lower.push_back(entry.substr(6));
  const auto megabits = tree.number(folder + "/speed");
  if (megabits && *megabits > 0) out.speed = static_cast<double>(*megabits) * 1e6;
  out.origin.set("speed", folder + "/speed", out.speed > 0);
  if (!out.mtu)
    if (const auto mtu = tree.number(folder + "/mtu"); mtu && *mtu > 0) {
      out.mtu = static_cast<unsigned>(*mtu);
      out.origin.read("mtu", folder + "/mtu");
    }
  if (const auto port = tree.number(folder + "/dev_port"); port && *port >= 0)
    out.port = static_cast<unsigned>(*port);
  out.origin.set("port", folder + "/dev_port", out.port.has_value());
}

// Where sysfs has only a link that leads nowhere (a copy of a part of it), the link still says whether there
// is hardware.
void read_dangling(Tree& tree, const std::string& folder, Interface& out) {
  const auto target = tree.points_to(folder);
  if (!target) return;
  if (target->find("/virtual/") == target->npos) return;
  out.kind = Kind::virtual_device;
  out.origin.read("kind", folder);
}

Interface start(const Link& link) {
  Interface one;
  one.name = link.name;
  one.index = link.index;
  one.up = link.up;
  one.carrier = link.up && link.running;
  one.kind = link.loopback ? Kind::loopback : link.type.empty() ? Kind::unknown : by_type(link.type);
  one.addresses = link.addresses;
  one.addresses_known = link.addresses_known;
  one.type = link.type;
  one.mtu = link.mtu;
  one.origin.set("up", link.from, link.flags_known);
  one.origin.set("carrier", link.from, link.flags_known);
  one.origin.set("kind", link.from, one.kind != Kind::unknown);
  one.origin.set("addresses", link.from, link.addresses_known);
  one.origin.set("mtu", link.from, link.mtu.has_value());
  return one;
}

// A bond or vlan is hardware if all that it is made of is. Bounded, since sysfs could describe a circle only
// by mistake.
bool all_hardware(const std::vector<Interface>& all, const Interface& one, int depth = 0) {
  if (!one.device.empty()) return true;
  if (one.lower.empty() || depth > 4) return false;
  return std::all_of(one.lower.begin(), one.lower.end(), [&](const std::string& lower) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Interface& i) { return i.name == lower; });
    return found != all.end() && all_hardware(all, *found, depth + 1);
  });
}

}  // namespace

bool Address::link_local() const {
  if (family == Family::v4) return bytes[0] == 169 && bytes[1] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string Address::text() const {
  char out[INET6_ADDRSTRLEN] = "";
  inet_ntop(family == Family::v4 ? AF_INET : AF_INET6, bytes.data(), out, sizeof out);
  return out;
}

std::optional<Address> parse_address(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) return address;
  address.family = Address::Family::v6;
  if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

const char* name(Scope scope) {
  switch (scope) {
    case Scope::unknown:
      return "unknown";
    case Scope::host:
      return "host";
    case Scope::link:
      return "link";
    case Scope::site:
      return "site";
    case Scope::global:
      return "global";
  }
  return "unknown";
}

const char* name(Kind kind) {
  switch (kind) {
    case Kind::unknown:
      return "unknown";
    case Kind::ethernet:
      return "ethernet";
    case Kind::infiniband:
      return "infiniband";
    case Kind::loopback:
      return "loopback";
    case Kind::bridge:
      return "bridge";
    case Kind::bond:
      return "bond";
    case Kind::vlan:
      return "vlan";
    case Kind::tunnel:
      return "tunnel";
    case Kind::veth:
      return "veth";
    case Kind::virtual_device:
      return "virtual";
  }
  return "unknown";
}

std::vector<Interface> read_interfaces(const std::string& root, const std::vector<Link>& links) {
  Tree tree(root);
  return read_interfaces(tree, links);
}

std::vector<Interface> read_interfaces(Tree& tree, const std::vector<Link>& links) {
  std::vector<Interface> all;
  for (const auto& link : links) {
    Interface one = start(link);
    const std::string folder = "/sys/class/net/" + link.name;
    const auto index = tree.number(folder + "/ifindex");
    if (index == static_cast<long long>(link.index))
      read_details(tree, folder, one);
    else if (!index)
      read_dangling(tree, folder, one);
    all.push_back(std::move(one));
  }
  for (auto& one : all) {
    one.hardware = all_hardware(all, one);
    if (one.hardware || one.speed == 0) continue;
    one.speed = 0;
    one.origin.set("speed", one.origin.from("speed"), false);
  }
  return all;
}

Result<std::string> interface_toward(const std::string& address, const std::vector<Interface>& interfaces) {
  const auto target = parse_address(address);
  if (!target)
    return Error{fmt::format("'{}' is not a numeric IPv4 or IPv6 address", printable(address)), "",
                 "resolve it first"};
  const auto owner = [&](const Address& wanted) {
    return std::find_if(interfaces.begin(), interfaces.end(), [&](const Interface& i) {
      return std::find(i.addresses.begin(), i.addresses.end(), wanted) != i.addresses.end();
    });
  };
  if (const auto mine = owner(*target); mine != interfaces.end()) return mine->name;

  sockaddr_storage to{};
  socklen_t length = 0;
  if (target->family == Address::Family::v4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(9);  // connect() of a datagram socket only asks the routing table
    std::memcpy(&in.sin_addr, target->bytes.data(), 4);
    length = sizeof in;
    std::memcpy(&to, &in, length);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(9);
    std::memcpy(&in.sin6_addr, target->bytes.data(), 16);
    length = sizeof in;
    std::memcpy(&to, &in, length);
  }
  const auto no_route = [&](const char* call) {
    return Error{fmt::format("there is no route to {}: {}: {}", address, call, std::strerror(errno)), "", ""};
  };
  const UniqueFd socket(::socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return no_route("socket");
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0) return no_route("connect");
  sockaddr_storage from{};
  length = sizeof from;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &length) != 0)
    return no_route("getsockname");
  if (const auto source = from_sockaddr(reinterpret_cast<const sockaddr*>(&from)))
    if (const auto mine = owner(*source); mine != interfaces.end()) return mine->name;
  return Error{fmt::format("the route to {} leaves from an address that no interface has", address), "", ""};
}

}  // namespace nccl_check::node
