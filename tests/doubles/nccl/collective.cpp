#include "tests/doubles/nccl/collective.hpp"

#include <algorithm>
#include <cstring>

#include "tests/doubles/nccl/numbers.hpp"

namespace nccl_check::doubles {
namespace {

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::reduce;
}

bool holds(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::size_t block_bytes(const Collective& what) {
  return what.count * bytes_of(what.type);
}

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const unsigned char*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

const unsigned char* at(const void* data, std::size_t offset) {
  return static_cast<const unsigned char*>(data) + offset;
}

}  // namespace

std::size_t bytes_from(const Collective& what, int ranks) {
  return block_bytes(what) *
         (what.operation == Operation::reduce_scatter ? static_cast<std::size_t>(ranks) : 1);
}

std::size_t bytes_to(const Collective& what, int ranks) {
  return block_bytes(what) * (what.operation == Operation::all_gather ? static_cast<std::size_t>(ranks) : 1);
}

Part part_of(const Collective& what, std::vector<Buffers> local, int ranks) {
  std::sort(local.begin(), local.end(), [](const Buffers& a, const Buffers& b) { return a.rank < b.rank; });
  Part part;
  const std::size_t bytes = bytes_from(what, ranks);
  for (const Buffers& rank : local) {
    part.ranks.push_back(rank.rank);
    if (reduces(what.operation) && !part.data.empty()) {
      reduce_into(part.data.data(), rank.from, bytes / bytes_of(what.type), what.type, what.reduction);
    } else if (what.operation != Operation::broadcast || rank.rank == what.root) {
      append(part.data, rank.from, bytes);
    }
  }
  return part;
}

Bytes joined(const Collective& what, std::vector<Part> parts, int ranks) {
  const std::size_t block = block_bytes(what);
  Bytes whole;
  if (what.operation == Operation::all_gather) whole.resize(block * static_cast<std::size_t>(ranks));
  for (Part& part : parts) {
    if (what.operation == Operation::all_gather) {
      for (std::size_t i = 0; i < part.ranks.size() && block > 0; ++i) {
        std::memcpy(whole.data() + static_cast<std::size_t>(part.ranks[i]) * block,
                    at(part.data.data(), i * block), block);
      }
    } else if (whole.empty()) {
      whole = std::move(part.data);  // broadcast: all but the root's are empty
    } else if (reduces(what.operation)) {
      reduce_into(whole.data(), part.data.data(), whole.size() / bytes_of(what.type), what.type,
                  what.reduction);
    }
  }
  if (reduces(what.operation) && what.reduction == ncclAvg) {
    divide(whole.data(), whole.size() / bytes_of(what.type), what.type, ranks);
  }
  return whole;
}

Bytes share_of(const Collective& what, const Bytes& whole, const std::vector<int>& local) {
  if (what.operation == Operation::reduce && !holds(local, what.root)) return {};
  if (what.operation != Operation::reduce_scatter) return whole;
  Bytes share;
  for (const int rank : local)
    append(share, at(whole.data(), static_cast<std::size_t>(rank) * block_bytes(what)), block_bytes(what));
  return share;
}

void deliver(const Collective& what, const Bytes& share, const std::vector<int>& local,
             const Buffers& buffers) {
  if (what.operation == Operation::reduce && buffers.rank != what.root) return;
  std::size_t offset = 0, bytes = share.size();
  if (what.operation == Operation::reduce_scatter) {
    bytes = block_bytes(what);
    offset =
        static_cast<std::size_t>(std::find(local.begin(), local.end(), buffers.rank) - local.begin()) * bytes;
  }
  if (bytes > 0) std::memcpy(buffers.to, at(share.data(), offset), bytes);
}

}  // namespace nccl_check::doubles
