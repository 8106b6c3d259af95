#pragma once
// Points in time on the monotonic clock. Every wait in this project takes a Deadline.
#include <algorithm>
#include <chrono>

namespace nccl_check {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;
using Milliseconds = std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

class Deadline {
 public:
  static Deadline in(Clock::duration wait) { return Deadline(Clock::now() + wait); }
  explicit Deadline(Clock::time_point at) : at_(at) {}

  [[nodiscard]] Clock::time_point at() const { return at_; }
  [[nodiscard]] bool passed() const { return Clock::now() >= at_; }
  [[nodiscard]] Clock::duration left() const { return std::max(at_ - Clock::now(), Clock::duration::zero()); }
  // For poll(2): rounded up, so that a wait never spins; never negative, so that it never becomes infinite.
  [[nodiscard]] int poll_ms() const {
    auto ms = std::chrono::ceil<Milliseconds>(left()).count();
    return static_cast<int>(std::clamp<long long>(ms, 0, 60'000));
  }
  [[nodiscard]] Deadline earlier(Deadline other) const { return at_ < other.at_ ? *this : other; }

 private:
  Clock::time_point at_;
};

}  // namespace nccl_check
