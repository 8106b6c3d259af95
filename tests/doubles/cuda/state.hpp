#pragma once
// The driver's state in this process: contexts, and the handles that it gave out.
#include <cuda.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/doubles/cuda/stream.hpp"
#include "tests/doubles/description/description.hpp"

namespace nccl_check::doubles {

// A device's primary context; its address is the handle. Lives as long as the process.
struct Context {
  CUdevice device = 0;
  int gpu = 0;
  std::mutex mutex;
  int retained = 0;
  std::shared_ptr<Stream> default_stream;
  std::vector<std::shared_ptr<Stream>> streams;
  std::array<std::atomic<bool>, most_gpus> peers{};
  std::atomic<CUresult> broken{CUDA_SUCCESS};  // once set, every call on this context returns it
  std::mutex kernels;                          // one kernel a GPU at a time
};

// Which objects of a type are alive, by handle.
template <class T>
class Handles {
 public:
  void add(const std::shared_ptr<T>& object) {
    const std::lock_guard lock(mutex_);
    alive_[object.get()] = object;
  }
  template <class Handle>
  std::shared_ptr<T> find(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = alive_.find(handle);
    return found == alive_.end() ? nullptr : found->second;
  }
  template <class Handle>
  std::shared_ptr<T> take(Handle handle) {
    auto object = find(handle);
    const std::lock_guard lock(mutex_);
    alive_.erase(handle);
    return object;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::shared_ptr<T>> alive_;
};

template <class T>
Handles<T>& handles() {
  static auto& all = *new Handles<T>;
  return all;
}

CUresult initialize();
CUresult ready();  // not before cuInit, not with a description that can't be used
CUresult context_of(CUdevice device, Context*& context);
CUresult current(Context*& context);  // the thread's; an error once that is broken
CUresult known(CUcontext handle, Context*& context);
void set_current(Context* context);
Context* peek_current();  // nullptr: none
int device_count();
std::shared_ptr<Stream> default_stream_of(int gpu);  // nullptr: no context there

// nullptr means the context's default stream. The stream's context must not be broken.
CUresult stream_of(CUstream handle, std::shared_ptr<Stream>& stream, Context*& context);

}  // namespace nccl_check::doubles
