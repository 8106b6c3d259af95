#pragma once
// Events: each recording is an object of its own, for whoever waits for it while the event is recorded anew.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace nccl_check::doubles {

class Record {
 public:
  explicit Record(int gpu) : gpu_(gpu) {}
  [[nodiscard]] int gpu() const { return gpu_; }
  void reach(double time) {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    time_ = time;
    changed_.notify_all();
  }
  double wait() {  // the stream's time there
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
    return time_;
  }
  bool reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }

 private:
  const int gpu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  double time_ = 0;
};

class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}
  [[nodiscard]] bool timed() const { return timed_; }
  std::shared_ptr<Record> latest() {  // nullptr: never recorded
    const std::lock_guard lock(mutex_);
    return record_;
  }
  void set(std::shared_ptr<Record> record) {
    const std::lock_guard lock(mutex_);
    record_ = std::move(record);
  }

 private:
  const bool timed_;
  std::mutex mutex_;
  std::shared_ptr<Record> record_;
};

}  // namespace nccl_check::doubles
