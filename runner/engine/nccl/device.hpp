#pragma once
// One of the job's GPUs, with what is needed to measure on it. A call that fails leaves its failure in
// trouble(), and later calls do nothing: whoever uses it looks at the end. One thread at a time uses it.
#include <array>
#include <string>
#include <vector>

#include "engine/nccl/choose_gpus.hpp"
#include "engine/nccl/crew.hpp"
#include "engine/nccl/cuda_api.hpp"
#include "kernels/kernels.hpp"

namespace nccl_check::engine::nccl {

// A part of a buffer's bytes, and whose pattern stands or should stand in it.
struct Pattern {
  kernels::Type type = kernels::Type::uint32;
  std::uint32_t rank = 0;  // kernels::all_ranks: of the sum over all
  std::uint32_t ranks = 1;
  std::uint64_t seed = 0;
};

struct Wrong {
  std::uint64_t count = 0;
  std::string first;  // "element 17: got 3, expected 5"
};

class Device {
 public:
  Device(const CudaApi& cuda, const Chosen& chosen, CUdevice device)
      : cuda_(cuda), chosen_(chosen), device_(device), where_(gpu_text(chosen.number, chosen.gpu.pci)) {}

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] std::string label() const { return "GPU " + std::to_string(chosen_.number); }
  [[nodiscard]] const Chosen& chosen() const { return chosen_; }
  [[nodiscard]] const Trouble& trouble() const { return trouble_; }
  [[nodiscard]] CUstream stream() const { return stream_; }

  void open();  // context, stream, kernels; the calling thread uses it then
  void use();   // makes its context the calling thread's
  // The same for a second thread, which leaves all else here alone.
  [[nodiscard]] Trouble take_context() const;
  void allow_peer(Device& other);  // direct access to the other's memory, where there is a way

  void reserve(std::uint64_t bytes);  // the buffer has at least so many
  void pin(std::uint64_t bytes);      // so has the host buffer
  [[nodiscard]] CUdeviceptr buffer() const { return buffer_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }

  // All of these are put on the stream. Offsets and sizes in bytes.
  void fill(std::uint64_t offset, std::uint64_t bytes, const Pattern& pattern);
  void begin_verify();
  void verify(std::uint64_t offset, std::uint64_t bytes, const Pattern& pattern);
  void verify_pinned(std::uint64_t bytes, const Pattern& pattern);  // read by the GPU
  void end_verify();
  void copy_by_kernel(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  void copy_to_peer(Device& peer, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  void copy_to_host(std::uint64_t from, std::uint64_t bytes);
  void copy_from_host(std::uint64_t to, std::uint64_t bytes);
  void flip(std::uint64_t offset);
  void flip_pinned(std::uint64_t offset);
  void hold();  // what comes after waits for release(), but not longer than a moment
  void release();
  void record(std::size_t event);
  void wait_for(Device& other, std::size_t event);  // an event of the other's that is already on its stream

  // Polls; a deadline that passes, or a stop, is trouble: hung. `look` is called now and then meanwhile, and
  // what it finds is trouble too.
  void finish(const Patience& patience, const std::string& doing, const std::function<Trouble()>& look = {});
  Nanoseconds elapsed(std::size_t from, std::size_t to);
  Wrong wrong(kernels::Type type);  // after end_verify() and finish()

  void fail(Failure failure) {
    if (!trouble_) trouble_ = std::move(failure);
  }

 private:
  struct Launchable {
    CUfunction function = nullptr;
    unsigned grid = 1, block = 1;
  };
  struct Shared;  // in pinned host memory

  template <class Function, class... Arguments>
  bool call(const char* doing, Function function, Arguments... arguments) {
    if (trouble_) return false;
    const CUresult code = function(arguments...);
    if (code != CUDA_SUCCESS) note(code, doing);
    return code == CUDA_SUCCESS;
  }
  void note(CUresult code, const char* doing);
  void verify_at(CUdeviceptr at, std::uint64_t bytes, const Pattern& pattern);
  void flip_at(CUdeviceptr at);
  void load(CUmodule module, const char* name, bool wide, Launchable& out);
  template <class Arguments>
  void launch(const char* doing, const Launchable& kernel, Arguments arguments);
  CUevent event(std::size_t number);

  const CudaApi& cuda_;
  Chosen chosen_;
  CUdevice device_;
  std::string where_;
  Trouble trouble_;
  bool out_of_memory_ = false;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  Launchable fill_, verify_, copy_, latch_, flip_;
  CUdeviceptr buffer_ = 0, found_ = 0;
  std::uint64_t capacity_ = 0, pinned_bytes_ = 0;
  void* pinned_ = nullptr;
  CUdeviceptr pinned_seen_ = 0;  // its address for the GPU
  Shared* shared_ = nullptr;
  CUdeviceptr shared_seen_ = 0;  // its address for the GPU
  std::uint32_t held_ = 0;
  std::vector<CUevent> events_;
};

}  // namespace nccl_check::engine::nccl
