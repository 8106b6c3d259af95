#pragma once
// What this node is, as far as NCCL and libfabric are concerned. Read, never decided or guessed.
#include <optional>
#include <string>
#include <vector>

#include "node/gpus.hpp"
#include "node/interfaces.hpp"
#include "node/rdma.hpp"
#include "node/system.hpp"

namespace nccl_check::node {

enum class Fabric { unknown, none, verbs, efa, cxi };
const char* name(Fabric fabric);

struct Facts {
  System system;
  // Each list: nothing where it can't be read, which is not the same as an empty one.
  std::optional<std::vector<Interface>> interfaces;
  std::optional<std::vector<RdmaDevice>> rdma;
  std::optional<std::vector<Gpu>> gpus;
  Fabric fabric = Fabric::unknown;
  std::string fabric_from;              // what shows it: "hsn0 (0000:41:00.0, 17db:0501)"
  std::vector<std::string> complaints;  // what could not be read, and why, in words
};

Facts read_facts(Tree& tree);

// Fills in fabric and the NICs nearest to each GPU, from the rest. Pure.
void relate(Facts& facts);

// HPE Slingshot (17db), and Amazon's EFA (1d0f, efa0 to efa3), by their PCI ids.
bool is_cxi(const Interface& interface);
bool is_efa(const RdmaDevice& device);

std::string facts_json(const Facts& facts);  // with an end of line

}  // namespace nccl_check::node
