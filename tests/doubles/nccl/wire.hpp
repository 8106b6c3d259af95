#pragma once
// Messages between a communicator's processes and its root thread. All ends run the same build.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nccl_check::doubles {

using Bytes = std::vector<unsigned char>;

enum class Message : std::uint32_t {
  join = 1,  // to the root: a rank is there; payload: Member
  ready,     // from the root: all ranks are; payload: Member[ranks]
  part,      // to the root: a process's part of a collective
  result,    // from the root: what its ranks need of it
  letter,    // a rank to a rank, through the root: a send's data, or a receive's acknowledgment
  leave,     // to the root: a rank ended in good order
  lost,      // from the root: a process is gone
};

struct Header {
  Message message = Message::join;
  std::uint32_t operation = 0;
  std::int32_t from = -1, to = -1;  // ranks; from: a collective's root in parts
  std::uint32_t type = 0, reduction = 0;
  std::uint64_t number = 0;        // of the collective, or of the letter of this kind between these two
  std::uint64_t count = 0;         // elements, as NCCL's call counts them
  double start = 0;                // the latest rank's clock, nanoseconds
  double inside = 0, outside = 0;  // GB/s: the slowest way within a host, and of one GPU to the network
  std::uint64_t bytes = 0;         // of payload
};

// What all ranks know of each.
struct Member {
  std::int32_t rank = -1, ranks = 0, gpu = -1;
  std::int32_t process = 0;
  std::array<char, 256> host{};  // NCCL_HOSTID, else the name
};

// False: the connection ended.
bool send_message(int fd, const Header& header, const void* payload);
bool receive_message(int fd, Header& header, Bytes& payload);

}  // namespace nccl_check::doubles
