#pragma once
// The node's verdict on itself: everything that its own GPUs can show, as figures.
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "engine/nccl/alone.hpp"
#include "engine/nccl/communicator.hpp"
#include "engine/nccl/node.hpp"

namespace nccl_check::engine::nccl {

// NCCL_CHECK_TEST_FLIP names this operation: "device_memory". For tests only.
bool flipped(verdict::Operation operation);
Effort effort_of(const Task& task, verdict::Operation operation);

// Makes every GPU's buffer at least so large.
Trouble reserve(Node& node, std::uint64_t bytes, std::uint64_t pinned, Deadline deadline);

// Adds, for each member, the work of becoming part of the communicator to a batch, on the crew's `thread`.
void add_connect(Batch& batch, Node& node, Members& members, const UniqueIdBytes& id, bool own_threads);

// A collective on the members' GPUs: the times are the slowest GPU's, wrong elements all GPUs' together.
// `reasons`: what slowed a GPU meanwhile, by member.
struct Ran {
  Samples samples;
  std::vector<std::uint64_t> reasons;
};
Measured<Ran> run_collective_on(Node& node, Members& members, const Task& task, Deadline deadline);

Measured<std::vector<Figure>> measure_node(Node& node, const Task& task, Deadline deadline);

}  // namespace nccl_check::engine::nccl
