#pragma once
// The two choices that NCCL makes badly by itself: which HCAs carry the data, which interfaces the sockets.
#include <string>
#include <vector>

#include "environment/plan.hpp"

namespace nccl_check::environment {

struct ChosenPort {
  const node::RdmaDevice* device;
  const node::Port* port;
};

struct Hcas {
  std::vector<ChosenPort> ports;  // by number; empty: none can be used
  std::vector<LeftOut> left_out;
  std::string why;
};

// Ports of verbs devices: active, hardware, no bond's parts, near GPUs (PIX or PXB, where some are), of the
// best rate, one link layer.
Hcas choose_hcas(const node::Facts& facts);

struct Sockets {
  std::vector<const node::Interface*> interfaces;  // empty: nothing is clearly right
  std::vector<LeftOut> left_out;
  std::string why;
};

// Interfaces that can lead to other nodes, and of those the fabric's, the proved ones, the fastest.
Sockets choose_sockets(const node::Facts& facts, const Situation& situation);

// bit/s: an interface's own, an IPoIB interface's by its port; 0: not known.
double speed_of(const node::Interface& interface, const node::Facts& facts);
std::string rate_text(double bits);  // "400 Gbit/s", "an unknown rate"

}  // namespace nccl_check::environment
