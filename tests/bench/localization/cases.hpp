#pragma once
// The fabrics and faults to search in.
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fabric.hpp"
#include "job/localization/ledger.hpp"

namespace nccl_check::simulation {

using Random = std::mt19937_64;

struct Scenario {
  Fabric fabric;
  std::vector<localization::Node> nodes;  // as Slurm knows them: with their leaf, or without
  std::set<std::size_t> bad;              // whose own link is slow: to be found
  double noise = 0.01;                    // standard deviation from iteration to iteration
  double dip = 0;                         // chance that a node falls to half its speed in an iteration
  double dip_length = 2;                  // iterations that it stays there, on average
};

struct Case {
  std::string name;
  bool judged = true;  // an innocent accused here is a failure; false: a known limit, shown
  std::function<Scenario(std::size_t nodes, double bad_share, Random&)> make;
};

std::vector<Case> cases();

}  // namespace nccl_check::simulation
