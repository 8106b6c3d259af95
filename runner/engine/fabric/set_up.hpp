#pragma once
// Opens libfabric and, on the devices that were named or chosen, an endpoint each.
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "engine/fabric/rail.hpp"

namespace nccl_check::engine::fabric {

struct SetUp {
  Opened opened;
  std::string provider;
  std::vector<Rail> rails;
};

// Blocks as long as libfabric does.
Result<SetUp> set_up(const Settings& settings);

}  // namespace nccl_check::engine::fabric
