#pragma once
// What collectives do with data, apart from how ranks meet: each process makes one part of its ranks' data,
// the parts become a whole, and each process gets its share of that.
#include <nccl.h>

#include <vector>

#include "tests/doubles/nccl/wire.hpp"

namespace nccl_check::doubles {

enum class Operation : std::uint32_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce };

struct Collective {
  Operation operation = Operation::all_reduce;
  std::size_t count = 0;  // as NCCL's call counts
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;
};

struct Buffers {
  int rank = -1;
  const void* from = nullptr;
  void* to = nullptr;
};

struct Part {
  std::vector<int> ranks;  // ascending
  Bytes data;
};

std::size_t bytes_from(const Collective& what, int ranks);  // of a rank's input
std::size_t bytes_to(const Collective& what, int ranks);    // of a rank's result

Part part_of(const Collective& what, std::vector<Buffers> local, int ranks);
Bytes joined(const Collective& what, std::vector<Part> parts, int ranks);
Bytes share_of(const Collective& what, const Bytes& whole, const std::vector<int>& local);
// Writes a rank's result. `local`: the ranks that the share was made for.
void deliver(const Collective& what, const Bytes& share, const std::vector<int>& local,
             const Buffers& buffers);

}  // namespace nccl_check::doubles
