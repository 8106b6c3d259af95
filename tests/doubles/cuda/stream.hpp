#pragma once
// Streams: each has a thread that does its work in order, and a virtual clock.
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace nccl_check::doubles {

// Moves the stream's clock, in nanoseconds, by as long as it takes. May wait in real time.
using Work = std::function<void(double& now)>;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> make(int gpu);
  void submit(Work work);
  void wait();  // for what was submitted until now
  bool idle();
  void close();  // no more work; its thread leaves when all is done
  [[nodiscard]] int gpu() const { return gpu_; }
  std::uint64_t next_key();  // another one for every operation: for its noise

 private:
  explicit Stream(int gpu) : gpu_(gpu), keys_(static_cast<std::uint64_t>(gpu) << 32U) {}
  void work();

  const int gpu_;
  std::atomic<std::uint64_t> keys_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t submitted_ = 0, done_ = 0;
  bool closed_ = false;
  double now_ = 0;
};

// The latest that any stream's clock has shown.
double latest_time();
[[noreturn]] void block_for_good();

}  // namespace nccl_check::doubles
