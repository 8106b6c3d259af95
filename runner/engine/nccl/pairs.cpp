#include "engine/nccl/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "engine/nccl/collective.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;
using verdict::Operation;

Measured<WorkerAddress> address_of(const std::string& text, const std::string& whose) {
  auto address = read_address(text);
  if (address) return *address;
  auto error = address.error();
  error.where = whose;
  return Failure{Class::untested, error};
}

// Members of ranks first, first + 1, ... of `ranks`, one for each of the first `count` GPUs.
Members members_of(Node& node, int first, int ranks, std::size_t count) {
  Members out;
  const bool whole = count == node.devices.size() && ranks == static_cast<int>(count);
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(std::make_unique<Communicator>(node.nccl, *node.devices[i], first + static_cast<int>(i),
                                                 ranks, whole));
  return out;
}

Connected how(const Node& node) {
  const auto log = parse_nccl_log(node.log.text());
  return {log.network, network_remark(log, node.ports)};
}

// What NCCL warned of explains a failure better than a passed deadline.
Failure with_warning(Failure failure, const Node& node) {
  const auto log = parse_nccl_log(node.log.text());
  if (!log.warning.empty() && failure.error.what.find(log.warning) == std::string::npos)
    failure.error.what += "; NCCL warned: " + log.warning;
  return failure;
}

}  // namespace

Measured<Connected> Pairs::connect(Node& node, const Place& place, Deadline deadline) {
  place_ = place;
  if (place.shared.empty()) return Connected{};
  auto address = address_of(place.shared, "the first worker's address");
  if (!address) return address.failure();
  all_ = members_of(node, place.rank, place.ranks, node.devices.size());
  Batch batch(node.crew, "NCCL's initialisation over all nodes", deadline);
  add_connect(batch, node, all_, address->ids.front(), false);
  if (auto trouble = batch.wait()) return with_warning(*trouble, node);
  return how(node);
}

Measured<Samples> Pairs::measure(Node& node, const Task& task, Deadline deadline) {
  if (task.operation == Operation::send_recv) {
    if (task.partner_rank == place_.rank) return Samples{};  // sits this one out
    auto measured = send_recv(node, task, deadline);
    if (!measured) return with_warning(measured.failure(), node);
    return measured;
  }
  if (task.operation != Operation::all_reduce && task.operation != Operation::all_gather)
    return untested(fmt::format("{} can't be measured between nodes", verdict::name(task.operation)));
  if (all_.empty()) return untested("the ranks have not been connected");
  if (place_.ranks < 2) return untested("one GPU alone has no bus bandwidth");
  if (auto trouble = reserve(node, buffer_for(task.operation, place_.ranks, task.bytes), 0, deadline))
    return *trouble;
  auto ran = run_collective_on(node, all_, task, deadline);
  if (!ran) return with_warning(ran.failure(), node);
  return std::move(ran->samples);
}

Measured<Pairs::Joint> Pairs::join(Node& node, const Task& task, Deadline deadline) {
  auto partner = address_of(task.partner, fmt::format("address of rank {}", task.partner_rank));
  if (!partner) return partner.failure();
  const auto rails = std::min(node.devices.size(), static_cast<std::size_t>(partner->gpus));
  if (!all_.empty()) return Joint{&all_, task.partner_rank, rails};
  const bool lower = place_.rank < task.partner_rank;
  const int count = static_cast<int>(rails);
  auto& members = pairs_[{task.partner, task.round}];
  if (!members.empty()) return Joint{&members, lower ? count : 0, rails};
  // The lower one's ids: both sides know them, and each id serves one communicator only.
  std::vector<UniqueIdBytes> ids(node.ids.begin(), node.ids.begin() + ids_in_address);
  if (!lower) ids = partner->ids;
  if (task.round < 0 || static_cast<std::size_t>(task.round) >= ids.size())
    return untested(fmt::format("a worker can take part in {} rounds of pairs, this is number {}", ids.size(),
                                task.round + 1),
                    "", "start a fresh one");
  members = members_of(node, lower ? 0 : count, 2 * count, rails);
  Batch batch(node.crew, fmt::format("NCCL's initialisation with rank {}", task.partner_rank), deadline);
  add_connect(batch, node, members, ids[static_cast<std::size_t>(task.round)], false);
  if (auto trouble = batch.wait()) return *trouble;
  return Joint{&members, lower ? count : 0, rails};
}

Measured<Samples> Pairs::send_recv(Node& node, const Task& task, Deadline deadline) {
  auto joint = join(node, task, deadline);
  if (!joint) return joint.failure();
  // Two buffers of that size, which together keep to the limit.
  const auto bytes =
      usable_bytes(Operation::send_recv, 2, std::min(task.bytes, node.settings.most_bytes / 2));
  if (auto trouble = reserve(node, 2 * bytes, 0, deadline)) return *trouble;
  const auto rails = std::make_shared<std::vector<Samples>>(joint->rails);
  Batch batch(node.crew, fmt::format("send/recv with rank {}", task.partner_rank), deadline);
  for (std::size_t i = 0; i < joint->rails; ++i) {
    auto effort = effort_of(task, Operation::send_recv);
    effort.flip = effort.flip && i == 0;
    batch.add(Node::gpu_thread(i), node.devices[i]->where(),
              [&node, &member = *(*joint->members)[i], partner = joint->partner + static_cast<int>(i), bytes,
               effort, rails, i](const Patience& patience) {
                return run_send_recv(node.nccl, member, partner, bytes, effort, patience, (*rails)[i]);
              });
  }
  if (auto trouble = batch.wait()) return *trouble;
  Samples out;
  out.bytes = bytes * joint->rails;
  for (std::size_t i = 0; i < joint->rails; ++i) {
    const auto& rail = (*rails)[i];
    out.times.resize(rail.times.size());
    for (std::size_t k = 0; k < rail.times.size(); ++k) out.times[k] = std::max(out.times[k], rail.times[k]);
    out.wrong += rail.wrong;
    if (out.first_wrong.empty()) out.first_wrong = rail.first_wrong;
    if (joint->rails > 1) out.rails.push_back({node.devices[i]->where(), rail.times});
  }
  return out;
}

}  // namespace nccl_check::engine::nccl
