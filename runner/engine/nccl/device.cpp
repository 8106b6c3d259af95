#include "engine/nccl/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <thread>

#include "base/units.hpp"
#include "engine/nccl/cuda_errors.hpp"
#include "kernels/image.hpp"

namespace nccl_check::engine::nccl {
namespace {

constexpr unsigned block = 512;
// Of a held stream. Short: should the host be kept from enqueuing until the GPU is free, for instance by
// another thread that loads kernels, the stream just goes on.
constexpr std::uint64_t longest_hold_ns = 20'000'000;
constexpr std::chrono::microseconds between_polls{50};
constexpr unsigned mapped = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
constexpr unsigned polls_a_look = 100;
constexpr std::size_t last_event = 0;

}  // namespace

struct Device::Shared {
  kernels::Mismatches found;
  std::atomic<std::uint32_t> flag;  // a stream that is held looks at it meanwhile
};
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

void Device::note(CUresult code, const char* doing) {
  const char* name = nullptr;
  if (cuda_.GetErrorName(code, &name) != CUDA_SUCCESS) name = nullptr;
  out_of_memory_ = out_of_memory_ || code == CUDA_ERROR_OUT_OF_MEMORY;
  fail(cuda_failure(code, name == nullptr ? "" : name, doing, where_));
}

void Device::open() {
  call("making a context", cuda_.DevicePrimaryCtxRetain, &context_, device_);
  use();
  call("making a stream", cuda_.StreamCreate, &stream_, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  CUmodule module = nullptr;
  call("loading the kernels", cuda_.ModuleLoadData, &module,
       static_cast<const void*>(kernels::image().data()));
  load(module, "nccl_check_fill", true, fill_);
  load(module, "nccl_check_verify", true, verify_);
  load(module, "nccl_check_copy", true, copy_);
  load(module, "nccl_check_latch", false, latch_);
  load(module, "nccl_check_flip", false, flip_);
  void* host = nullptr;
  if (!call("pinning host memory", cuda_.MemHostAlloc, &host, sizeof(Shared), mapped)) return;
  shared_ = new (host) Shared{};
  call("mapping host memory", cuda_.MemHostGetDevicePointer, &shared_seen_, host, 0U);
  call("allocating", cuda_.MemAlloc, &found_, sizeof(kernels::Mismatches));
}

void Device::use() {
  call("taking the context", cuda_.CtxSetCurrent, context_);
}

Trouble Device::take_context() const {
  const CUresult code = cuda_.CtxSetCurrent(context_);
  if (code == CUDA_SUCCESS) return std::nullopt;
  return cuda_failure(code, "", "taking the context", where_);
}

// The grid fills the GPU once: the kernels stride over what is left.
void Device::load(CUmodule module, const char* name, bool wide, Launchable& out) {
  call("finding a kernel", cuda_.ModuleGetFunction, &out.function, module, name);
  if (!wide) return;
  int blocks = 0, processors = 0;
  call("asking for a kernel's occupancy", cuda_.OccupancyMaxActiveBlocksPerMultiprocessor, &blocks,
       out.function, static_cast<int>(block), std::size_t{0});
  call("asking for the multiprocessors", cuda_.DeviceGetAttribute, &processors,
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
  out.block = block;
  out.grid = static_cast<unsigned>(std::max(1, blocks * processors));
}

template <class Arguments>
void Device::launch(const char* doing, const Launchable& kernel, Arguments arguments) {
  void* list[] = {&arguments};
  call(doing, cuda_.LaunchKernel, kernel.function, kernel.grid, 1U, 1U, kernel.block, 1U, 1U, 0U, stream_,
       list, static_cast<void**>(nullptr));
}

void Device::allow_peer(Device& other) {
  if (trouble_) return;
  int can = 0;
  call("asking for peer access", cuda_.DeviceCanAccessPeer, &can, device_, other.device_);
  if (can == 0) return;  // the driver then copies by way of the host
  use();
  const CUresult code = cuda_.CtxEnablePeerAccess(other.context_, 0);
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    note(code, "enabling peer access");
}

void Device::reserve(std::uint64_t bytes) {
  if (bytes <= capacity_) return;
  if (buffer_ != 0) call("freeing the buffer", cuda_.MemFree, buffer_);
  buffer_ = 0;
  capacity_ = 0;
  std::size_t free_bytes = 0, all = 0;
  call("asking for the free memory", cuda_.MemGetInfo, &free_bytes, &all);
  if (!trouble_ && free_bytes < bytes) {
    out_of_memory_ = true;
    return fail(untested(fmt::format("the GPU has {} MiB of memory free, {} are needed", free_bytes >> 20U,
                                     format_size(bytes)),
                         where_, "end the processes that hold it"));
  }
  if (call("allocating", cuda_.MemAlloc, &buffer_, static_cast<std::size_t>(bytes))) capacity_ = bytes;
}

void Device::pin(std::uint64_t bytes) {
  if (bytes <= pinned_bytes_) return;
  if (!call("pinning host memory", cuda_.MemHostAlloc, &pinned_, static_cast<std::size_t>(bytes), mapped))
    return;
  call("mapping host memory", cuda_.MemHostGetDevicePointer, &pinned_seen_, pinned_, 0U);
  pinned_bytes_ = bytes;
}

void Device::fill(std::uint64_t offset, std::uint64_t bytes, const Pattern& pattern) {
  launch("filling a buffer", fill_,
         kernels::FillArguments{reinterpret_cast<void*>(buffer_ + offset),
                                bytes / kernels::size_of(pattern.type), 0, pattern.seed, pattern.type,
                                kernels::Reduction::sum, pattern.rank, pattern.ranks});
}

void Device::begin_verify() {
  call("clearing", cuda_.MemsetD8Async, found_, static_cast<unsigned char>(0), sizeof(kernels::Mismatches),
       stream_);
}

void Device::verify(std::uint64_t offset, std::uint64_t bytes, const Pattern& pattern) {
  verify_at(buffer_ + offset, bytes, pattern);
}

void Device::verify_pinned(std::uint64_t bytes, const Pattern& pattern) {
  verify_at(pinned_seen_, bytes, pattern);
}

void Device::verify_at(CUdeviceptr at, std::uint64_t bytes, const Pattern& pattern) {
  launch("verifying", verify_,
         kernels::VerifyArguments{reinterpret_cast<const void*>(at), bytes / kernels::size_of(pattern.type),
                                  0, pattern.seed, pattern.type, kernels::Reduction::sum, pattern.rank,
                                  pattern.ranks, reinterpret_cast<kernels::Mismatches*>(found_)});
}

void Device::end_verify() {
  call("reading what verification found", cuda_.MemcpyDtoHAsync, static_cast<void*>(&shared_->found), found_,
       sizeof(kernels::Mismatches), stream_);
}

// On an H200 the grid that fills the GPU once is the best of those tried (tests/device/RESULTS.md).
void Device::copy_by_kernel(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  launch("copying", copy_,
         kernels::StreamArguments{reinterpret_cast<void*>(buffer_ + to),
                                  reinterpret_cast<const void*>(buffer_ + from), nullptr, bytes});
}

void Device::copy_to_peer(Device& peer, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  call("copying to a peer", cuda_.MemcpyPeerAsync, peer.buffer_ + to, peer.context_, buffer_ + from, context_,
       static_cast<std::size_t>(bytes), stream_);
}

void Device::copy_to_host(std::uint64_t from, std::uint64_t bytes) {
  call("copying to the host", cuda_.MemcpyDtoHAsync, pinned_, buffer_ + from, static_cast<std::size_t>(bytes),
       stream_);
}

void Device::copy_from_host(std::uint64_t to, std::uint64_t bytes) {
  call("copying from the host", cuda_.MemcpyHtoDAsync, buffer_ + to, static_cast<const void*>(pinned_),
       static_cast<std::size_t>(bytes), stream_);
}

void Device::flip(std::uint64_t offset) {
  flip_at(buffer_ + offset);
}

void Device::flip_pinned(std::uint64_t offset) {
  flip_at(pinned_seen_ + offset);
}

void Device::flip_at(CUdeviceptr at) {
  launch("flipping a bit", flip_, kernels::FlipArguments{reinterpret_cast<void*>(at), 0});
}

void Device::hold() {
  launch("holding the stream", latch_,
         kernels::LatchArguments{
             reinterpret_cast<const volatile std::uint32_t*>(shared_seen_ + offsetof(Shared, flag)), ++held_,
             0, longest_hold_ns});
}

void Device::release() {
  if (shared_ != nullptr) shared_->flag.store(held_, std::memory_order_release);
}

CUevent Device::event(std::size_t number) {
  while (events_.size() <= number) {
    CUevent made = nullptr;
    if (!call("making an event", cuda_.EventCreate, &made, static_cast<unsigned>(CU_EVENT_DEFAULT)))
      return nullptr;
    events_.push_back(made);
  }
  return events_[number];
}

// The first event is finish()'s own.
void Device::record(std::size_t number) {
  CUevent at = event(number + 1);
  call("recording an event", cuda_.EventRecord, at, stream_);
}

void Device::wait_for(Device& other, std::size_t number) {
  call("waiting for a peer's event", cuda_.StreamWaitEvent, stream_, other.event(number + 1), 0U);
}

void Device::finish(const Patience& patience, const std::string& doing,
                    const std::function<Trouble()>& look) {
  CUevent at = event(last_event);
  call("recording an event", cuda_.EventRecord, at, stream_);
  for (unsigned polls = 1; !trouble_; ++polls) {
    const CUresult code = cuda_.EventQuery(at);
    if (code == CUDA_SUCCESS) return;
    if (code != CUDA_ERROR_NOT_READY) return note(code, doing.c_str());
    if (look && polls % polls_a_look == 0)
      if (auto found = look()) return fail(*found);
    if (patience.over()) return fail(hung(doing, where_));
    std::this_thread::sleep_for(between_polls);
  }
}

Nanoseconds Device::elapsed(std::size_t from, std::size_t to) {
  float ms = 0;
  call("reading a time", cuda_.EventElapsedTime, &ms, event(from + 1), event(to + 1));
  return Nanoseconds(std::llround(static_cast<double>(ms) * 1e6));
}

Wrong Device::wrong(kernels::Type type) {
  Wrong out;
  if (trouble_ || shared_ == nullptr || shared_->found.wrong == 0) return out;
  const auto& found = shared_->found;
  out.count = found.wrong;
  out.first = fmt::format("{}, element {}: got {}, expected {}", where_, found.first_wrong - 1,
                          format_number(kernels::value_of(type, found.got)),
                          format_number(kernels::value_of(type, found.expected)));
  return out;
}

}  // namespace nccl_check::engine::nccl
