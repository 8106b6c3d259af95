// What a stream does for NCCL, and how long that takes by the ring model.
#include <algorithm>
#include <cstring>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/rates.hpp"
#include "tests/doubles/nccl/enqueue.hpp"
#include "tests/doubles/nccl/log.hpp"

namespace nccl_check::doubles {
namespace {

const Member& member(const ncclComm& comm, int rank) {
  return comm.link->members()[static_cast<std::size_t>(rank)];
}

int ranks_on_host(const ncclComm& comm) {
  const auto& all = comm.link->members();
  const auto& host = member(comm, comm.rank).host;
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [&](const Member& m) { return m.host == host; }));
}

double to_network(const ncclComm& comm) {
  if (network() == "Socket") return description()->host.socket_rate / ranks_on_host(comm);
  return network_rate(comm.gpu, ranks_on_host(comm));
}

// The ring goes through a host's ranks in order, then back to its first or on to the next host.
int next_on_host(const ncclComm& comm) {
  const auto& host = member(comm, comm.rank).host;
  for (int step = 1; step < comm.ranks; ++step) {
    const Member& other = member(comm, (comm.rank + step) % comm.ranks);
    if (other.host == host) return other.gpu;
  }
  return -1;
}

Pace own_pace(const ncclComm& comm, double now) {
  const double slow = factor(Kind::slow_collectives, {.gpu = comm.gpu});
  const int next = next_on_host(comm);
  return {now, slow * (next == -1 ? memory_rate(comm.gpu) / 2 : peer_rate(comm.gpu, next)),
          slow * to_network(comm)};
}

// Every NIC of a host carries the same share, so that the slowest holds up all.
double bus_bandwidth(const ncclComm& comm, const Pace& pace) {
  const int here = ranks_on_host(comm);
  return here == comm.ranks ? pace.inside
                            : std::min(here == 1 ? pace.outside : pace.inside, pace.outside * here);
}

// Bytes that pass each link: nccl-tests' bus bandwidth, turned round.
double bus_bytes(const Collective& what, int ranks) {
  const auto bytes = static_cast<double>(std::max(bytes_from(what, ranks), bytes_to(what, ranks)));
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (ranks == 1) return bytes;
  switch (what.operation) {
    case Operation::all_reduce:
      return 2 * share * bytes;
    case Operation::all_gather:
    case Operation::reduce_scatter:
      return share * bytes;
    default:
      return bytes;
  }
}

// False: the fault has taken the operation's place.
bool spared(ncclComm& comm) {
  crash(Stage::collective, {.gpu = comm.gpu});
  if (const Fault* fault = strikes(Kind::nccl_error, Stage::collective, {.gpu = comm.gpu})) {
    comm.fail(static_cast<ncclResult_t>(fault->code), fault->text);
  } else if (strikes(Kind::hang, Stage::collective, {.gpu = comm.gpu}) == nullptr) {
    return true;
  }
  comm.link->wait_for_end(comm.ended);
  return false;
}

void maybe_corrupt(const ncclComm& comm, void* data, std::size_t bytes) {
  if (bytes == 0 || strikes(Kind::corrupt, Stage::collective, {.gpu = comm.gpu}) == nullptr) return;
  static_cast<unsigned char*>(data)[bytes / 2] ^= 1U;
}

double way_to(const ncclComm& comm, int peer) {
  if (peer == comm.rank) return memory_rate(comm.gpu) / 2;
  const Member& other = member(comm, peer);
  return other.host == member(comm, comm.rank).host ? peer_rate(comm.gpu, other.gpu) : to_network(comm);
}

// Tells the other side; a send's data goes along.
void write_letter(ncclComm& comm, const Numbered& one, double now) {
  const Transfer& transfer = one.transfer;
  Bytes payload;
  if (transfer.send) {
    const auto* begin = static_cast<const unsigned char*>(transfer.data);
    payload.assign(begin, begin + transfer.bytes);
  }
  const Letter kind = transfer.send ? Letter::data : Letter::taken;
  const Header header{.message = Message::letter,
                      .operation = static_cast<std::uint32_t>(kind),
                      .from = comm.rank,
                      .to = transfer.peer,
                      .number = one.number,
                      .start = now,
                      .inside = way_to(comm, transfer.peer),
                      .bytes = payload.size()};
  comm.link->post(header, std::move(payload));
}

}  // namespace

void run_collective(ncclComm& comm, const Collective& what, std::uint64_t number, const Buffers& buffers,
                    double& now) {
  if (!spared(comm)) return;
  Pace pace = own_pace(comm, now);
  if (!comm.link->collective(what, number, buffers, pace, comm.ended)) return;
  const bool has_result = what.operation != Operation::reduce || comm.rank == what.root;
  if (has_result) maybe_corrupt(comm, buffers.to, bytes_to(what, comm.ranks));
  now = pace.start + lasting(bus_bytes(what, comm.ranks), bus_bandwidth(comm, pace), number);
}

void run_transfers(ncclComm& comm, const std::vector<Numbered>& transfers, double& now) {
  if (!spared(comm)) return;
  for (const Numbered& one : transfers) write_letter(comm, one, now);
  double start = now, sending = 0, receiving = 0;
  for (const Numbered& one : transfers) {
    const Transfer& transfer = one.transfer;
    Header header;
    Bytes payload;
    const Letter kind = transfer.send ? Letter::taken : Letter::data;
    const double own_rate = way_to(comm, transfer.peer);
    if (!comm.link->fetch(kind, transfer.peer, comm.rank, one.number, header, payload, comm.ended)) return;
    start = std::max(start, header.start);
    const auto bytes = static_cast<double>(transfer.bytes);
    (transfer.send ? sending : receiving) += bytes / std::min(own_rate, header.inside);
    if (transfer.send) continue;
    std::memcpy(transfer.data, payload.data(), std::min(payload.size(), transfer.bytes));
    maybe_corrupt(comm, transfer.data, transfer.bytes);
  }
  const std::uint64_t key = transfers.front().number * 64 +
                            static_cast<std::uint64_t>(std::min(comm.rank, transfers.front().transfer.peer));
  now = start + lasting(std::max(sending, receiving), 1, key);
}

}  // namespace nccl_check::doubles
