#pragma once
// Which bytes are sent and received in which order: one list of messages each way, the same on both ends of a
// line. Pure arithmetic.
#include <cstdint>

#include "verdict/verdict.hpp"

namespace nccl_check::engine::fabric {

// A piece of the task's memory.
struct Span {
  enum class In { input, output, slot };
  In in = In::output;
  std::uint64_t offset = 0;  // bytes; in a slot always 0
  std::uint64_t bytes = 0;   // 0: there is no such message, on neither side
};

// Sizes in bytes; n ranks in a ring. Messages are numbered step by step, `chunks` to a step.
//   all_reduce: in step s a rank receives a piece of segment (rank-1-s) mod n. In the first n-1 steps that
//     is a partial sum, to which its own input is added; after them the result travels once around.
//   all_gather: the same steps without the first half.
//   send_recv: one step with the partner.
// Message k + chunks is what was made of received message k: it can be sent when that one has been processed.
class Schedule {
 public:
  // `bytes` as usable_bytes() gave it.
  Schedule(verdict::Operation operation, int rank, int ranks, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t messages() const { return chunks_ * steps_; }  // each way
  [[nodiscard]] std::uint64_t ready_at_first() const { return chunks_; }     // sends that wait for nothing
  [[nodiscard]] std::uint64_t chunk_bytes() const { return chunk_; }         // no message is larger
  [[nodiscard]] Span send(std::uint64_t message) const;
  [[nodiscard]] Span receive(std::uint64_t message) const;
  // The piece of input and output that a received partial sum belongs to; bytes is 0 where nothing is added.
  [[nodiscard]] Span adds_to(std::uint64_t message) const;
  // How many sends must have left this rank before `message` may be received: it overwrites what they send.
  [[nodiscard]] std::uint64_t sends_before(std::uint64_t message) const;

  [[nodiscard]] bool needs_slots() const { return operation_ == verdict::Operation::all_reduce; }

  // What of the memory belongs to this task.
  [[nodiscard]] std::uint64_t input_bytes() const;
  [[nodiscard]] std::uint64_t output_bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t share_bytes() const;  // all_gather: one rank's part of the output

 private:
  [[nodiscard]] Span piece(std::uint64_t segment, std::uint64_t chunk) const;

  verdict::Operation operation_;
  std::uint64_t rank_;
  std::uint64_t ranks_;
  std::uint64_t bytes_;
  std::uint64_t steps_ = 0;
  std::uint64_t chunk_ = 0;
  std::uint64_t chunks_ = 0;
};

// Bytes of the size column that an operation really uses: whole elements, and for all_gather 16 bytes a rank
// at least.
std::uint64_t usable_bytes(verdict::Operation operation, int ranks, std::uint64_t bytes);

}  // namespace nccl_check::engine::fabric
