#include "engine/fabric/schedule.hpp"

#include <algorithm>

namespace nccl_check::engine::fabric {
namespace {

using verdict::Operation;

constexpr std::uint64_t word = 4;          // every element is a 32-bit float or word
constexpr std::uint64_t gather_unit = 16;  // nccl-tests rounds a rank's share down to this

// Large enough that a message costs little beside its bytes, small enough that a segment has several, so that
// one is on the line while another is added up.
constexpr std::uint64_t smallest_chunk = 128U << 10U;
constexpr std::uint64_t largest_chunk = 1U << 20U;
constexpr std::uint64_t chunks_wanted = 8;

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::uint64_t usable_bytes(Operation operation, int ranks, std::uint64_t bytes) {
  if (operation != Operation::all_gather) return bytes / word * word;
  const auto n = static_cast<std::uint64_t>(ranks);
  return bytes / n / gather_unit * gather_unit * n;
}

Schedule::Schedule(Operation operation, int rank, int ranks, std::uint64_t bytes)
    : operation_(operation),
      rank_(static_cast<std::uint64_t>(rank)),
      ranks_(static_cast<std::uint64_t>(ranks)),
      bytes_(bytes) {
  std::uint64_t segment = bytes_;
  switch (operation_) {
    case Operation::all_reduce:
      steps_ = 2 * (ranks_ - 1);
      segment = divide_up(bytes_ / word, ranks_) * word;
      break;
    case Operation::all_gather:
      steps_ = ranks_ - 1;
      segment = bytes_ / ranks_;
      break;
    case Operation::send_recv:
      steps_ = 1;
      break;
    default:
      break;
  }
  chunk_ =
      std::clamp(divide_up(divide_up(segment, chunks_wanted), 4096) * 4096, smallest_chunk, largest_chunk);
  chunks_ = divide_up(segment, chunk_);
}

std::uint64_t Schedule::input_bytes() const {
  return operation_ == Operation::all_gather ? 0 : bytes_;  // all_gather works in place
}

std::uint64_t Schedule::share_bytes() const {
  return bytes_ / ranks_;
}

// Segments of an all_reduce differ by at most one element, and every one has as many chunks, the last perhaps
// empty.
Span Schedule::piece(std::uint64_t segment, std::uint64_t chunk) const {
  std::uint64_t begin = 0;
  std::uint64_t end = bytes_;
  if (operation_ == Operation::all_reduce) {
    const std::uint64_t elements = bytes_ / word;
    const std::uint64_t share = elements / ranks_;
    const std::uint64_t longer = elements % ranks_;  // the first `longer` segments have one element more
    begin = (segment * share + std::min(segment, longer)) * word;
    end = begin + (share + (segment < longer ? 1 : 0)) * word;
  } else if (operation_ == Operation::all_gather) {
    begin = segment * share_bytes();
    end = begin + share_bytes();
  }
  const std::uint64_t from = std::min(begin + chunk * chunk_, end);
  return Span{Span::In::output, from, std::min(chunk_, end - from)};
}

Span Schedule::send(std::uint64_t message) const {
  const std::uint64_t step = message / chunks_;
  Span span = piece((rank_ + 2 * ranks_ - step) % ranks_, message % chunks_);
  if (step == 0 && operation_ != Operation::all_gather) span.in = Span::In::input;
  return span;
}

Span Schedule::receive(std::uint64_t message) const {
  const std::uint64_t step = message / chunks_;
  Span span = piece((rank_ + 2 * ranks_ - 1 - step) % ranks_, message % chunks_);
  if (operation_ == Operation::all_reduce && step + 1 < ranks_) {
    span.in = Span::In::slot;
    span.offset = 0;
  }
  return span;
}

Span Schedule::adds_to(std::uint64_t message) const {
  const std::uint64_t step = message / chunks_;
  if (operation_ != Operation::all_reduce || step + 1 >= ranks_) return {};
  return piece((rank_ + 2 * ranks_ - 1 - step) % ranks_, message % chunks_);
}

std::uint64_t Schedule::sends_before(std::uint64_t message) const {
  if (operation_ != Operation::all_reduce || message / chunks_ + 1 < ranks_) return 0;
  // The partial sum of the same piece was sent n-1 steps before.
  return message + 1 - (ranks_ - 1) * chunks_;
}

}  // namespace nccl_check::engine::fabric
