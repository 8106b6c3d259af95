#include "engine/fabric/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/units.hpp"

namespace nccl_check::engine::fabric {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t piece = 4U << 20U;

std::uint64_t pages(std::uint64_t bytes) {
  return (bytes + page - 1) / page * page;
}

}  // namespace

Memory::~Memory() {
  if (base_ != nullptr) munmap(base_, size_);
}

Status Memory::reserve(std::uint64_t input, std::uint64_t output, std::uint64_t slots,
                       std::uint64_t slot_bytes, const Pause& pause,
                       const std::function<void()>& before_move) {
  output_at_ = pages(input);
  slots_at_ = output_at_ + pages(output);
  slot_bytes_ = slot_bytes;
  const std::uint64_t wanted = slots_at_ + pages(slots * slot_bytes);
  if (wanted <= size_) return success();
  before_move();
  if (base_ != nullptr) munmap(base_, size_);
  base_ = nullptr;
  size_ = 0;
  void* fresh = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED)
    return Error{fmt::format("{} of memory could not be had: {}", format_size(wanted), std::strerror(errno)),
                 "", "measure a smaller size"};
  base_ = static_cast<std::byte*>(fresh);
  size_ = wanted;
  madvise(base_, size_, MADV_HUGEPAGE);  // fewer page faults where the kernel grants it; no matter if not
  in_pieces(size_, piece, pause, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t at = begin; at < end; at += page) base_[at] = std::byte{1};
  });
  return success();
}

}  // namespace nccl_check::engine::fabric
