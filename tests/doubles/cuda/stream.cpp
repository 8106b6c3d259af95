#include "tests/doubles/cuda/stream.hpp"

#include <unistd.h>

#include <thread>

namespace nccl_check::doubles {
namespace {

std::atomic<double> latest{0};

void note_time(double now) {
  double known = latest.load();
  while (known < now && !latest.compare_exchange_weak(known, now)) {
  }
}

}  // namespace

double latest_time() {
  return latest.load();
}

void block_for_good() {
  while (true) ::pause();
}

std::shared_ptr<Stream> Stream::make(int gpu) {
  std::shared_ptr<Stream> stream(new Stream(gpu));
  std::thread([stream] {
    stream->work();
  }).detach();  // a stream that hangs must not hold up the process's end
  return stream;
}

void Stream::submit(Work work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  ++submitted_;
  changed_.notify_all();
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = submitted_;
  changed_.wait(lock, [&] { return done_ >= wanted; });
}

bool Stream::idle() {
  const std::lock_guard lock(mutex_);
  return done_ == submitted_;
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::uint64_t Stream::next_key() {
  return keys_++;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !queue_.empty() || closed_; });
    if (queue_.empty()) return;
    Work next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next(now_);
    note_time(now_);
    next = nullptr;  // what it holds is let go before anyone sees it done
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace nccl_check::doubles
