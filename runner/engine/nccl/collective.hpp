#pragma once
// NCCL's operations, as one rank runs them on its thread of the crew.
#include "engine/engine.hpp"
#include "engine/nccl/alone.hpp"
#include "engine/nccl/communicator.hpp"

namespace nccl_check::engine::nccl {

// Bytes of buffer that an operation of this size needs on each GPU.
std::uint64_t buffer_for(verdict::Operation operation, int ranks, std::uint64_t bytes);
// Bytes in nccl-tests' sense that will be used of `bytes`: whole elements, equal shares of 16 bytes.
std::uint64_t usable_bytes(verdict::Operation operation, int ranks, std::uint64_t bytes);

// In place. all_reduce: 32-bit floats, sum. all_gather: `bytes` is the whole result. `reasons`: what slowed
// the clock while it ran (nvmlClocksEventReason* bits), asked for by `ask` once.
struct Collective {
  verdict::Operation operation = verdict::Operation::all_reduce;
  std::uint64_t bytes = 0;
  Effort effort;
};
Trouble run_collective(const NcclApi& api, Communicator& comm, const Collective& what,
                       const Patience& patience, const std::function<void()>& meanwhile, Samples& out);

// To `partner` and from it at once, `bytes` each way.
Trouble run_send_recv(const NcclApi& api, Communicator& comm, int partner, std::uint64_t bytes,
                      const Effort& effort, const Patience& patience, Samples& out);

}  // namespace nccl_check::engine::nccl
