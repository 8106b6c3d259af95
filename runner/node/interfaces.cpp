#include "node/interfaces.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace nccl_check::node {
namespace fs = std::filesystem;
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

// sysfs attributes are one short line; reading one may fail (speed of a device that is down), which means
// unknown.
std::string attribute(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (file) std::getline(file, line);
  return std::string(trim(line));
}

std::optional<long long> number(const std::string& text) {
  long long value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

Kind kind_of(const fs::path& folder) {
  const auto type = number(attribute(folder / "type"));
  if (type == ARPHRD_LOOPBACK) return Kind::loopback;
  if (there(folder / "bridge")) return Kind::bridge;
  if (there(folder / "bonding")) return Kind::bond;
  if (there(folder / "tun_flags")) return Kind::tunnel;
  std::ifstream uevent(folder / "uevent");
  for (std::string line; std::getline(uevent, line);)
    if (line == "DEVTYPE=vlan") return Kind::vlan;
  if (type == ARPHRD_INFINIBAND) return Kind::infiniband;
  if (there(folder / "device") && type == ARPHRD_ETHER) return Kind::ethernet;
  return type == ARPHRD_ETHER ? Kind::virtual_device : type ? Kind::tunnel : Kind::unknown;
}

void read_details(const fs::path& folder, Interface& out) {
  out.kind = kind_of(folder);
  out.enslaved = there(folder / "master");
  if (const auto carrier = number(attribute(folder / "carrier"))) out.carrier = out.up && *carrier == 1;
  if (there(folder / "device")) {
    std::error_code error;
    const auto device = fs::canonical(folder / "device", error);
    out.device = error ? "device" : device.filename().string();
    out.hardware = true;
    for (const char* stack : {"infiniband", "cxi"})
      for (auto& domain : entries(folder / "device" / stack)) out.domains.push_back(std::move(domain));
  }
  for (const auto& entry : entries(folder))
    if (entry.starts_with("lower_")) out.lower.push_back(entry.substr(6));
  if (const auto megabits = number(attribute(folder / "speed")); megabits && *megabits > 0)
    out.speed = static_cast<double>(*megabits) * 1e6;
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
    case Kind::virtual_device:
      return "virtual";
  }
  return "unknown";
}

Result<std::vector<Link>> read_links() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return Error{fmt::format("the network interfaces could not be read: {}", std::strerror(errno)),
                 "getifaddrs", ""};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, &freeifaddrs);
  std::vector<Link> links;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto found =
        std::find_if(links.begin(), links.end(), [&](const Link& l) { return l.name == entry->ifa_name; });
    if (found == links.end()) {
      Link link;
      link.name = entry->ifa_name;
      link.index = if_nametoindex(entry->ifa_name);
      link.up = (entry->ifa_flags & IFF_UP) != 0;
      link.running = (entry->ifa_flags & IFF_RUNNING) != 0;
      link.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      found = links.insert(links.end(), std::move(link));
    }
    if (const auto address = from_sockaddr(entry->ifa_addr)) found->addresses.push_back(*address);
  }
  for (auto& link : links)
    std::stable_partition(link.addresses.begin(), link.addresses.end(),
                          [](const Address& a) { return a.family == Address::Family::v4; });
  return links;
}

std::vector<Interface> read_interfaces(const std::string& root, const std::vector<Link>& links) {
  std::vector<Interface> all;
  for (const auto& link : links) {
    Interface one;
    one.name = link.name;
    one.index = link.index;
    one.up = link.up;
    one.carrier = link.up && link.running;
    one.kind = link.loopback ? Kind::loopback : Kind::unknown;
    one.addresses = link.addresses;
    const fs::path folder = fs::path(root) / "sys/class/net" / link.name;
    if (number(attribute(folder / "ifindex")) == static_cast<long long>(link.index))
      read_details(folder, one);
    all.push_back(std::move(one));
  }
  for (auto& one : all) {
    one.hardware = all_hardware(all, one);
    if (!one.hardware) one.speed = 0;
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
