#pragma once
// What a peer must know of a worker: how many GPUs it has, and unique ids with which communicators can be
// made whose root it is. One line of printable text; a peer's is a stranger's and is checked whole.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::engine::nccl {

constexpr std::size_t id_bytes = 128;  // NCCL_UNIQUE_ID_BYTES
// Each can be used for one communicator: the first for all ranks or the first round of pairs, the others for
// further rounds.
constexpr std::size_t ids_in_address = 4;
constexpr int most_gpus = 64;

using UniqueIdBytes = std::array<char, id_bytes>;

struct WorkerAddress {
  int gpus = 0;
  std::vector<UniqueIdBytes> ids;
};

std::string write_address(const WorkerAddress& address);  // "nccl1 8 0200c35d... ..."
Result<WorkerAddress> read_address(std::string_view text);

}  // namespace nccl_check::engine::nccl
