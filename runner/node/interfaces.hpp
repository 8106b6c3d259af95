#pragma once
// The node's network interfaces. Reads, never decides: which one is used is the engine's or the rules'
// choice.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::node {

struct Address {
  enum class Family { v4, v6 };
  Family family = Family::v4;
  std::array<std::uint8_t, 16> bytes{};  // network order; IPv4 in the first four
  [[nodiscard]] bool link_local() const;
  [[nodiscard]] std::string text() const;
  bool operator==(const Address&) const = default;
};

// A numeric IPv4 or IPv6 address; nothing for anything else.
std::optional<Address> parse_address(const std::string& text);

// What the kernel says of an interface in this process's network namespace.
struct Link {
  std::string name;
  unsigned index = 0;
  bool up = false;       // IFF_UP
  bool running = false;  // IFF_RUNNING
  bool loopback = false;
  std::vector<Address> addresses;  // IPv4 first, else in the kernel's order
};
Result<std::vector<Link>> read_links();

enum class Kind { unknown, ethernet, infiniband, loopback, bridge, bond, vlan, tunnel, virtual_device };
const char* name(Kind kind);  // "ethernet", "loopback", ...

struct Interface {
  std::string name;
  unsigned index = 0;
  Kind kind = Kind::unknown;
  bool up = false;
  bool carrier = false;
  bool enslaved = false;  // a bond's or bridge's port: its master is what carries addresses
  bool hardware = false;  // a device stands behind it, or behind everything that it is made of
  std::string device;     // bus address of that device ("0000:41:00.0", "virtio2"); empty: none of its own
  std::vector<std::string> domains;  // RDMA devices on the same device: "mlx5_0", "cxi0"
  std::vector<std::string> lower;    // what it is made of: a bond's, bridge's or vlan's interfaces
  double speed = 0;  // bit/s by sysfs; 0: unknown. Virtual devices report a fiction, which is not taken
  std::vector<Address> addresses;
};

// `root` is where sysfs's /sys is found ("/" on a live node). Details of an interface are taken only where
// sysfs speaks of the same one (by index): in another network namespace than sysfs was mounted in it would be
// a namesake's.
std::vector<Interface> read_interfaces(const std::string& root, const std::vector<Link>& links);

// The interface that has `address`, else the one whose address the kernel would send from to reach it. No
// packet is sent.
Result<std::string> interface_toward(const std::string& address, const std::vector<Interface>& interfaces);

}  // namespace nccl_check::node
