#pragma once
// Which provider and which endpoints are used: a pure function of what libfabric offers, what the node has
// and what was asked for.
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "node/interfaces.hpp"

namespace nccl_check::engine::fabric {

// One entry of fi_getinfo()'s list, as far as the choice depends on it.
struct Candidate {
  std::size_t index = 0;   // in that list
  std::string provider;    // "net", "tcp;ofi_rxm", "cxi"
  std::string domain;      // "eth0", "mlx5_0", "cxi0"
  std::string pci;         // bus address of its device; empty: unknown
  std::string source;      // its own IP address, where it has one; empty: none
  bool link_down = false;  // by libfabric's word
  double speed = 0;        // bit/s by libfabric's word; 0: unknown
};

struct Chosen {
  std::string provider;
  struct Rail {
    std::size_t index = 0;  // of the candidate
    std::string name;       // interface, else domain: "eth0", "mlx5_0"
    double speed = 0;       // bit/s; 0: unknown
  };
  std::vector<Rail> rails;  // in the order in which they are striped over
  double line_rate = 0;     // GB/s of all; 0: unknown
  std::string line_text;    // "eth0 at 10 Gb/s", "eth0: a virtual device, whose speed is unknown"
};

// Where the provider is not named: the first of cxi, efa, opx, verbs, net, tcp and sockets that has what is
// needed. Where no interface is named: all of the fastest that are up with a carrier and an address that is
// not link-local; if no speed is known, `toward` (an interface's name, or why there is none).
Result<Chosen> choose(const Settings& settings, const std::vector<Candidate>& candidates,
                      const std::vector<node::Interface>& interfaces, const Result<std::string>& toward);

}  // namespace nccl_check::engine::fabric
