#include "tests/doubles/cuda/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/doubles/description/description.hpp"

namespace nccl_check::doubles {
namespace {

constexpr std::size_t alignment = 512;

struct Blocks {
  std::mutex mutex;
  std::map<std::uintptr_t, Block> by_address;
  std::map<int, std::size_t> used;
};

Blocks& blocks() {
  static auto& all = *new Blocks;
  return all;
}

void release(Blocks& all, const Block& block) {
  if (block.place == Place::device) all.used[block.gpu] -= block.bytes;
  if (block.place != Place::registered) std::free(reinterpret_cast<void*>(block.begin));
}

}  // namespace

void* allocate(Place place, int gpu, std::size_t bytes) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  if (place == Place::device && all.used[gpu] + bytes > description()->host.real_memory) return nullptr;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* address = whole < bytes ? nullptr : std::aligned_alloc(alignment, whole);
  if (address == nullptr) return nullptr;
  std::memset(address, 0xa5, std::min<std::size_t>(bytes, 64U << 10U));  // nobody may count on zeroes
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  all.by_address[begin] = {place, gpu, begin, bytes};
  if (place == Place::device) all.used[gpu] += bytes;
  return address;
}

bool free_block(void* address, Place place) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == all.by_address.end() || found->second.place != place) return false;
  release(all, found->second);
  all.by_address.erase(found);
  return true;
}

bool register_block(void* address, std::size_t bytes) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return all.by_address.try_emplace(begin, Block{Place::registered, -1, begin, bytes}).second;
}

void free_all_of(int gpu) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_address, [&](const auto& entry) {
    if (entry.second.gpu != gpu) return false;
    release(all, entry.second);
    return true;
  });
}

std::size_t used_by(int gpu) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  return all.used[gpu];
}

std::optional<Block> block_of(const void* address, std::size_t bytes) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  auto after = all.by_address.upper_bound(begin);
  if (after == all.by_address.begin()) return Block{};
  const Block& block = std::prev(after)->second;
  if (begin >= block.begin + block.bytes) return Block{};
  if (begin + bytes > block.begin + block.bytes) return std::nullopt;
  return block;
}

}  // namespace nccl_check::doubles
