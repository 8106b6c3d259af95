#include "engine/nccl/collective.hpp"

#include <algorithm>

namespace nccl_check::engine::nccl {
namespace {

using verdict::Operation;

constexpr std::uint64_t share_unit = 16;

void* address(CUdeviceptr at) {
  return reinterpret_cast<void*>(at);
}

// The operation `count` times with event i before the i-th and one behind the last.
template <class Once>
Trouble repeat(Device& device, int count, Once once) {
  for (int i = 0; i < count; ++i) {
    device.record(static_cast<std::size_t>(i));
    if (auto trouble = once()) return trouble;
  }
  device.record(static_cast<std::size_t>(count));
  return device.trouble();
}

// The first operation makes connections, so it is waited for; one more absorbs that ranks begin at different
// times; the measured ones follow without a gap.
template <class Once>
Trouble time_it(Communicator& comm, const Effort& effort, const Patience& patience, const std::string& doing,
                Once once, const std::function<void()>& meanwhile, Samples& out) {
  auto& device = comm.device();
  for (int i = 0; i < effort.warmups; ++i) {
    if (auto trouble = once()) return trouble;
    if (i > 0) continue;
    if (auto trouble = comm.finish(patience, doing)) return trouble;
  }
  if (auto trouble = repeat(device, effort.iterations + 1, once)) return trouble;
  if (meanwhile) meanwhile();
  if (auto trouble = comm.finish(patience, doing)) return trouble;
  for (int i = 1; i <= effort.iterations; ++i)
    out.times.push_back(device.elapsed(static_cast<std::size_t>(i), static_cast<std::size_t>(i) + 1));
  return device.trouble();
}

void take_wrong(Device& device, kernels::Type type, Samples& out) {
  const auto wrong = device.wrong(type);
  out.wrong = wrong.count;
  out.first_wrong = wrong.first;
}

// What a rank contributes stands where NCCL expects it for an operation in place.
struct Share {
  kernels::Type type = kernels::Type::float32;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

Share share_of(const Collective& what, const Communicator& comm) {
  if (what.operation == Operation::all_reduce) return {kernels::Type::float32, 0, what.bytes};
  const auto bytes = what.bytes / static_cast<std::uint64_t>(comm.ranks());
  return {kernels::Type::uint32, bytes * static_cast<std::uint64_t>(comm.rank()), bytes};
}

void verify_result(Device& device, const Collective& what, const Share& share, std::uint32_t ranks) {
  device.begin_verify();
  if (what.operation == Operation::all_reduce) {
    device.verify(0, what.bytes, {share.type, kernels::all_ranks, ranks, what.effort.seed});
  } else {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      device.verify(rank * share.bytes, share.bytes, {share.type, rank, ranks, what.effort.seed});
  }
  device.end_verify();
}

}  // namespace

std::uint64_t buffer_for(Operation operation, int ranks, std::uint64_t bytes) {
  const auto used = usable_bytes(operation, ranks, bytes);
  return operation == Operation::send_recv ? 2 * used : used;
}

std::uint64_t usable_bytes(Operation operation, int ranks, std::uint64_t bytes) {
  const auto unit = operation == Operation::all_gather
                        ? share_unit * static_cast<std::uint64_t>(std::max(1, ranks))
                        : share_unit;
  return bytes / unit * unit;
}

Trouble run_collective(const NcclApi& api, Communicator& comm, const Collective& what,
                       const Patience& patience, const std::function<void()>& meanwhile, Samples& out) {
  auto& device = comm.device();
  device.use();
  const auto share = share_of(what, comm);
  const auto ranks = static_cast<std::uint32_t>(comm.ranks());
  const Pattern own{share.type, static_cast<std::uint32_t>(comm.rank()), ranks, what.effort.seed};
  const std::string doing(verdict::name(what.operation));
  const auto once = [&] {
    return comm.call(doing.c_str(), patience, [&](ncclComm_t handle) {
      if (what.operation == Operation::all_reduce)
        return api.AllReduce(address(device.buffer()), address(device.buffer()), what.bytes / sizeof(float),
                             ncclFloat32, ncclSum, handle, device.stream());
      return api.AllGather(address(device.buffer() + share.offset), address(device.buffer()), share.bytes,
                           ncclInt8, handle, device.stream());
    });
  };
  // Sums in place grow with every round, so data is made anew for the round that is verified.
  const auto prepare = [&] {
    if (what.operation == Operation::all_gather)
      device.fill(0, what.bytes, {share.type, own.rank, ranks, ~what.effort.seed});
    device.fill(share.offset, share.bytes, own);
  };
  prepare();
  if (auto trouble = time_it(comm, what.effort, patience, doing, once, meanwhile, out)) return trouble;
  out.bytes = what.bytes;
  if (!what.effort.verify) return device.trouble();
  prepare();
  if (auto trouble = once()) return trouble;
  if (what.effort.flip) device.flip(what.bytes / 2);
  verify_result(device, what, share, ranks);
  if (auto trouble = comm.finish(patience, doing)) return trouble;
  take_wrong(device, share.type, out);
  return device.trouble();
}

Trouble run_send_recv(const NcclApi& api, Communicator& comm, int partner, std::uint64_t bytes,
                      const Effort& effort, const Patience& patience, Samples& out) {
  auto& device = comm.device();
  device.use();
  const auto ranks = static_cast<std::uint32_t>(comm.ranks());
  const auto type = kernels::Type::uint32;
  const std::string doing = "send/recv";
  const auto once = [&] {
    return comm.call("send/recv", patience, [&](ncclComm_t handle) {
      auto result = api.GroupStart();
      if (result == ncclSuccess)
        result = api.Send(address(device.buffer()), bytes, ncclInt8, partner, handle, device.stream());
      if (result == ncclSuccess)
        result =
            api.Recv(address(device.buffer() + bytes), bytes, ncclInt8, partner, handle, device.stream());
      const auto end = api.GroupEnd();
      return result == ncclSuccess || result == ncclInProgress ? end : result;
    });
  };
  device.fill(0, bytes, {type, static_cast<std::uint32_t>(comm.rank()), ranks, effort.seed});
  device.fill(bytes, bytes, {type, static_cast<std::uint32_t>(comm.rank()), ranks, ~effort.seed});
  if (auto trouble = time_it(comm, effort, patience, doing, once, nullptr, out)) return trouble;
  out.bytes = bytes;
  if (!effort.verify) return device.trouble();
  if (effort.flip) device.flip(bytes + bytes / 2);
  device.begin_verify();
  device.verify(bytes, bytes, {type, static_cast<std::uint32_t>(partner), ranks, effort.seed});
  device.end_verify();
  if (auto trouble = comm.finish(patience, doing)) return trouble;
  take_wrong(device, type, out);
  return device.trouble();
}

}  // namespace nccl_check::engine::nccl
