#pragma once
// The buffers of a measurement, kept between tasks: touching memory for the first time is slow.
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.hpp"
#include "engine/fabric/schedule.hpp"

namespace nccl_check::engine::fabric {

using Pause = std::function<void()>;  // called between pieces of long work: the sign of life

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  // Makes room (it never shrinks) and touches all of it. `before_move` is called before what was there goes
  // away, for whoever has registered it with a device.
  Status reserve(std::uint64_t input, std::uint64_t output, std::uint64_t slots, std::uint64_t slot_bytes,
                 const Pause& pause, const std::function<void()>& before_move);

  [[nodiscard]] std::byte* input() const { return base_; }
  [[nodiscard]] std::byte* output() const { return base_ + output_at_; }
  [[nodiscard]] std::byte* slot(std::uint64_t number) const {
    return base_ + slots_at_ + number * slot_bytes_;
  }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::size_t output_at_ = 0;
  std::size_t slots_at_ = 0;
  std::size_t slot_bytes_ = 0;
};

// Runs `work(begin, end)` over [0, total) in pieces short enough that a sign of life comes in time.
template <class Work>
void in_pieces(std::uint64_t total, std::uint64_t piece, const Pause& pause, const Work& work) {
  for (std::uint64_t begin = 0; begin < total; begin += piece) {
    work(begin, begin + piece < total ? begin + piece : total);
    pause();
  }
}

}  // namespace nccl_check::engine::fabric
