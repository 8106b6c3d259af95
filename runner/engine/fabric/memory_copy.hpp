#pragma once
// A streaming copy through this node's memory by all CPUs that this process may use.
#include "base/deadline.hpp"
#include "engine/engine.hpp"

namespace nccl_check::engine::fabric {

// task.bytes and Samples::bytes count what is read plus what is written, so each of the two buffers has half
// of it. One thread a CPU of the affinity mask, bound to it; its part of the memory is first touched by it,
// so it lies near it.
Measured<Samples> memory_copy(const Task& task, std::uint64_t most_bytes, const Heartbeat& heartbeat,
                              Deadline deadline);

}  // namespace nccl_check::engine::fabric
