#pragma once
// What addresses are: device memory is the process's own, so that a device address is a host address too.
#include <cstddef>
#include <cstdint>
#include <optional>

namespace nccl_check::doubles {

enum class Place { device, pinned, registered, pageable };

struct Block {
  Place place = Place::pageable;
  int gpu = -1;
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

// nullptr: this GPU has no room (device), or the machine.
void* allocate(Place place, int gpu, std::size_t bytes);
bool free_block(void* address, Place place);  // false: no block of that kind begins there
bool register_block(void* address, std::size_t bytes);
void free_all_of(int gpu);
std::size_t used_by(int gpu);

// The block that holds these bytes; pageable: none known. No value: they begin in a block and end outside it.
std::optional<Block> block_of(const void* address, std::size_t bytes);

}  // namespace nccl_check::doubles
