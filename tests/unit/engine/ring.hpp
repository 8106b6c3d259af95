#pragma once
// Several ranks on this machine: one process each, as in a real check, with the addresses passed through
// socket pairs.
#include <functional>
#include <string>
#include <vector>

#include "engine/fabric/fabric_engine.hpp"

namespace nccl_check::engine::fabric {

struct Rank {
  FabricEngine& engine;
  Place place;                         // with the neighbours' addresses
  std::vector<std::string> addresses;  // of all ranks
  std::function<void()> meet;          // waits until every rank is here
};

// What a rank's function returns is shown if it is not empty, and makes the test fail. The engine is open
// when it is called; a rank that could not open it fails the test by itself.
struct RingOf {
  int ranks = 2;
  std::function<Settings(int rank)> settings = [](int) { return over("lo"); };
  Tamper tamper{};

  static Settings over(const std::string& interface) {
    Settings settings;
    settings.interfaces = {interface};
    return settings;
  }
};
std::vector<std::string> run_ring(const RingOf& ring, const std::function<std::string(Rank&)>& body);

}  // namespace nccl_check::engine::fabric
