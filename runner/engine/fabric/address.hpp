#pragma once
// What a peer must know to reach this node's endpoints, as one line of printable text. A peer's line is a
// stranger's text: it is checked whole before any of it is used.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::engine::fabric {

constexpr std::size_t most_rails = 16;  // endpoints a node
constexpr std::size_t most_address_bytes =
    1024;  // of one endpoint; sockets have 16 or 28, EFA 32, UCX hundreds
constexpr std::size_t most_text = 4096;

struct EndpointAddress {
  std::uint32_t format = 0;  // libfabric's addr_format
  std::string bytes;         // as fi_getname() gave it
};

struct NodeAddress {
  std::string provider;
  std::vector<EndpointAddress> endpoints;
};

std::string write_address(const NodeAddress& address);  // "fabric1 net 2:0200c35d0a000001..."
Result<NodeAddress> read_address(std::string_view text);

}  // namespace nccl_check::engine::fabric
