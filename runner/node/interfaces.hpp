#pragma once
// The node's network interfaces. Reads, never decides: which one is used is the engine's or the rules'
// choice.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/origin.hpp"
#include "node/pci.hpp"
#include "node/tree.hpp"

namespace nccl_check::node {

enum class Scope { unknown, host, link, site, global };
const char* name(Scope scope);

struct Address {
  enum class Family { v4, v6 };
  Family family = Family::v4;
  std::array<std::uint8_t, 16> bytes{};  // network order; IPv4 in the first four
  unsigned prefix = 0;                   // bits of its network; 0: not known
  Scope scope = Scope::unknown;          // as the kernel has it
  [[nodiscard]] bool link_local() const;
  [[nodiscard]] std::string text() const;
  // Whose it is, not where it was read.
  bool operator==(const Address& other) const { return family == other.family && bytes == other.bytes; }
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
  std::string type{};              // rtnetlink's word for a software device: "veth", "bridge", "vlan"
  std::optional<unsigned> mtu{};   // bytes
  std::string from = "rtnetlink";  // who said so
  bool flags_known = true;         // else up and running are only not known
  bool addresses_known = true;     // else there may be others
};
// In this process's network namespace, by rtnetlink.
Result<std::vector<Link>> read_links();
// Of the tree: a live node's own; a recorded one's by what was recorded of rtnetlink; of another tree (a copy
// of somebody's /sys) what the files say, which hold no IPv4 address.
Result<std::vector<Link>> read_links(Tree& tree);
// What a recording keeps of rtnetlink, and where in its root.
constexpr const char* recorded_links = "/nccl-check/rtnetlink.json";
std::string links_text(const std::vector<Link>& links);

enum class Kind { unknown, ethernet, infiniband, loopback, bridge, bond, vlan, tunnel, veth, virtual_device };
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
  bool addresses_known = true;   // else there may be others
  std::string type;              // rtnetlink's word: "veth", "macvlan", "dummy"; empty: none
  std::string master;            // the bond or bridge that it is a port of
  std::string pci;               // the PCI function behind it: "0000:41:00.0", also behind virtio2
  PciFunction function;          // where pci is known
  std::string driver;            // "mlx5_core"; empty: not known
  std::optional<unsigned> mtu;   // bytes
  std::optional<unsigned> port;  // which of its device's ports, from 0 (dev_port)
  bool usb = false;              // hangs on USB: mostly a BMC's
  Origin origin;                 // of these fields, by name
};

// `root` is where sysfs's /sys is found ("/" on a live node). Details of an interface are taken only where
// sysfs speaks of the same one (by index): in another network namespace than sysfs was mounted in it would be
// a namesake's.
std::vector<Interface> read_interfaces(const std::string& root, const std::vector<Link>& links);
std::vector<Interface> read_interfaces(Tree& tree, const std::vector<Link>& links);

// The interface that has `address`, else the one whose address the kernel would send from to reach it. No
// packet is sent.
Result<std::string> interface_toward(const std::string& address, const std::vector<Interface>& interfaces);

}  // namespace nccl_check::node
