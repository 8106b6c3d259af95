#pragma once
// RDMA devices and their ports, by sysfs alone.
#include <optional>
#include <string>
#include <vector>

#include "node/interfaces.hpp"
#include "node/pci.hpp"

namespace nccl_check::node {

enum class LinkLayer { unknown, infiniband, ethernet };
const char* name(LinkLayer layer);

struct Gid {
  unsigned index = 0;
  Address address;   // a GID is written as an IPv6 address; RoCE's IPv4 ones as ::ffff:a.b.c.d
  std::string type;  // "IB/RoCE v1", "RoCE v2"; empty: not known
  std::string netdev;
  // An address that IPv4 has, which RoCE v2 routes by.
  [[nodiscard]] bool ipv4() const;
};

struct Port {
  unsigned number = 1;
  std::optional<bool> active;  // its state is ACTIVE
  std::string state;           // "ACTIVE", "DOWN", "INIT"; empty: not known
  double rate = 0;             // bit/s; 0: not known
  LinkLayer layer = LinkLayer::unknown;
  std::string netdev;  // its network interface; empty: none, or not known
  std::vector<Gid> gids;
  Origin origin;
};

struct RdmaDevice {
  std::string name;  // "mlx5_0"
  // "0000:41:00.0"; empty: none behind it (soft RoCE, SCIF), or a link that leads nowhere
  std::string pci;
  PciFunction function;  // where pci is known
  std::vector<Port> ports;
  Origin origin;
};

// By /sys/class/infiniband; nothing: there is no such folder (no RDMA stack is loaded, or it can't be seen).
std::optional<std::vector<RdmaDevice>> read_rdma(Tree& tree, const std::vector<Interface>& interfaces);

}  // namespace nccl_check::node
