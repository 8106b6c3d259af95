#pragma once
// Measuring between nodes: one communicator over all ranks, or, without it, one of its own for each pair.
#include <map>
#include <string>

#include "engine/engine.hpp"
#include "engine/nccl/figures.hpp"
#include "engine/nccl/node.hpp"

namespace nccl_check::engine::nccl {

class Pairs {
 public:
  // Without place.shared: for pairs only, nothing to do yet.
  Measured<Connected> connect(Node& node, const Place& place, Deadline deadline);
  Measured<Samples> measure(Node& node, const Task& task, Deadline deadline);

 private:
  Measured<Samples> send_recv(Node& node, const Task& task, Deadline deadline);
  // The communicator for this task and the rank in it of the partner's first GPU; as many rails as both have.
  struct Joint {
    Members* members = nullptr;
    int partner = 0;
    std::size_t rails = 0;
  };
  Measured<Joint> join(Node& node, const Task& task, Deadline deadline);

  Place place_;
  Members all_;
  std::map<std::pair<std::string, int>, Members> pairs_;  // by partner's address and round
};

}  // namespace nccl_check::engine::nccl
