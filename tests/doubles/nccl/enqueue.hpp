#pragma once
// Operations, from the call to the stream: gathered within a group, connected at first, then given to
// streams.
#include <cuda.h>

#include <variant>

#include "tests/doubles/nccl/communicator.hpp"

namespace nccl_check::doubles {

struct Transfer {  // one send or receive
  bool send = true;
  int peer = -1;
  void* data = nullptr;
  std::size_t bytes = 0;
};

struct Request {
  std::shared_ptr<ncclComm> comm;
  CUstream stream = nullptr;
  std::variant<Collective, Transfer> what;
  Buffers buffers;  // of a collective
};

void group_start();
ncclResult_t group_end();
bool in_group();
ncclResult_t enqueue(Request request);
// A blocking communicator's making, which in a group is waited for at its end.
ncclResult_t wait_made_or_defer(const std::shared_ptr<ncclComm>& comm);

// What a stream does; in run.cpp.
void run_collective(ncclComm& comm, const Collective& what, std::uint64_t number, const Buffers& buffers,
                    double& now);
struct Numbered {
  Transfer transfer;
  std::uint64_t number = 0;  // of the sends or receives between the two
};
void run_transfers(ncclComm& comm, const std::vector<Numbered>& transfers, double& now);

}  // namespace nccl_check::doubles
