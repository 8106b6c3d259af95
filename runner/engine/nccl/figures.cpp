#include "engine/nccl/figures.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"
#include "engine/nccl/affinity.hpp"
#include "engine/nccl/ceilings.hpp"
#include "engine/nccl/collective.hpp"
#include "engine/nccl/health.hpp"
#include "engine/nccl/rounds.hpp"
#include "engine/nccl/sharing.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Operation;

// Pinning costs about a third of a millisecond a MiB; this much still fills a link for half a millisecond.
constexpr std::uint64_t most_pinned = 32U << 20U;
constexpr std::uint64_t least_buffer = 64U << 10U;

// Threads of the crew may outlive a call that ran into its deadline: what they write to is shared with them.
template <class T>
std::shared_ptr<std::vector<T>> shared_results(std::size_t count) {
  return std::make_shared<std::vector<T>>(count);
}

Figure figure_of(Operation operation, std::string subject, Samples samples, const Ceiling& ceiling) {
  Figure out;
  out.operation = operation;
  out.subject = std::move(subject);
  out.samples = std::move(samples);
  out.ceiling = ceiling.rate;
  out.ceiling_text = ceiling.text;
  return out;
}

std::uint32_t own_pid() {
  return static_cast<std::uint32_t>(::getpid());
}

std::uint64_t reasons_now(const Node& node, std::size_t gpu) {
  return node.nvml && node.monitors[gpu] != nullptr ? clock_reasons(*node.nvml, node.monitors[gpu]) : 0;
}

Trouble add_memory(Node& node, const Task& task, Deadline deadline, std::vector<Figure>& figures) {
  const auto samples = shared_results<Samples>(node.devices.size());
  const auto effort = effort_of(task, Operation::device_memory);
  Batch batch(node.crew, "measuring device memory", deadline);
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    auto own = effort;
    own.flip = effort.flip && i == 0;
    batch.add(Node::gpu_thread(i), node.devices[i]->where(),
              [&node, samples, own, i](const Patience& patience) {
                return measure_memory(*node.devices[i], own, patience, (*samples)[i]);
              });
  }
  if (auto trouble = batch.wait()) return trouble;
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    figures.push_back(figure_of(Operation::device_memory, node.devices[i]->where(), std::move((*samples)[i]),
                                memory_ceiling(node.readings[i])));
    figures.back().remark = company_text(node.readings[i], own_pid());
  }
  return std::nullopt;
}

// One GPU at a time: those behind one PCIe switch share its way to the host.
Trouble add_host_links(Node& node, const Task& task, Deadline deadline, std::vector<Figure>& figures) {
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    const auto samples = shared_results<Samples>(2);
    HostEfforts efforts{effort_of(task, Operation::to_device), effort_of(task, Operation::from_device)};
    efforts.to.flip = efforts.to.flip && i == 0;
    efforts.from.flip = efforts.from.flip && i == 0;
    Batch batch(node.crew, "measuring the host link", deadline);
    batch.add(Node::gpu_thread(i), node.devices[i]->where(),
              [&node, samples, efforts, i](const Patience& patience) {
                return measure_host(*node.devices[i], most_pinned, efforts, patience, (*samples)[0],
                                    (*samples)[1]);
              });
    if (auto trouble = batch.wait()) return trouble;
    const auto ceiling = host_ceiling(node.readings[i]);
    const auto& where = node.devices[i]->where();
    figures.push_back(figure_of(Operation::to_device, where, std::move((*samples)[0]), ceiling));
    figures.push_back(figure_of(Operation::from_device, where, std::move((*samples)[1]), ceiling));
  }
  return std::nullopt;
}

Trouble allow_peers(Node& node, Deadline deadline) {
  Batch batch(node.crew, "enabling peer access", deadline);
  for (std::size_t i = 0; i < node.devices.size(); ++i)
    batch.add(Node::gpu_thread(i), node.devices[i]->where(), [&node, i](const Patience&) {
      for (std::size_t j = 0; j < node.devices.size(); ++j)
        if (j != i) node.devices[i]->allow_peer(*node.devices[j]);
      return node.devices[i]->trouble();
    });
  return batch.wait();
}

std::vector<std::string> addresses_of(const Node& node) {
  std::vector<std::string> out;
  for (const auto& gpu : node.shown) out.push_back(gpu.known.pci);
  return out;
}

Trouble add_round(Node& node, const Round& round, const Task& task, Deadline deadline,
                  std::vector<Figure>& figures) {
  const auto samples = shared_results<Samples>(round.size());
  Batch batch(node.crew, "measuring peer copies", deadline);
  for (std::size_t k = 0; k < round.size(); ++k) {
    const auto a = static_cast<std::size_t>(round[k].first);
    const auto b = static_cast<std::size_t>(round[k].second);
    auto effort = effort_of(task, Operation::peer_copy);
    effort.flip = effort.flip && a == 0;
    const auto who = fmt::format("{} with {}", node.devices[a]->label(), node.devices[b]->label());
    batch.add(Node::gpu_thread(a), who, [&node, samples, effort, a, b, k](const Patience& patience) {
      return measure_peers(*node.devices[a], *node.devices[b], effort, patience, (*samples)[k]);
    });
  }
  if (auto trouble = batch.wait()) return trouble;
  const auto addresses = addresses_of(node);
  for (std::size_t k = 0; k < round.size(); ++k) {
    const auto a = static_cast<std::size_t>(round[k].first);
    const auto b = static_cast<std::size_t>(round[k].second);
    const auto ceiling = peer_ceiling(node.readings[a], node.chosen[a].gpu.pci, node.readings[b],
                                      node.chosen[b].gpu.pci, addresses);
    figures.push_back(figure_of(Operation::peer_copy,
                                fmt::format("{} with {}", node.devices[a]->label(), node.devices[b]->label()),
                                std::move((*samples)[k]), ceiling));
  }
  return std::nullopt;
}

Trouble add_links(Node& node, const Task& task, Deadline deadline, std::vector<Figure>& figures) {
  if (auto trouble = add_memory(node, task, deadline, figures)) return trouble;
  if (auto trouble = add_host_links(node, task, deadline, figures)) return trouble;
  if (node.devices.size() < 2) return std::nullopt;
  if (auto trouble = allow_peers(node, deadline)) return trouble;
  for (const auto& round : pairing_rounds(static_cast<int>(node.devices.size())))
    if (auto trouble = add_round(node, round, task, deadline, figures)) return trouble;
  return std::nullopt;
}

Measured<Figure> collective_figure(Node& node, Members& members, const Task& task, Deadline deadline) {
  auto ran = run_collective_on(node, members, task, deadline);
  if (!ran) return ran.failure();
  auto figure = figure_of(task.operation, "", std::move(ran->samples), collective_ceiling(node.readings));
  figure.ranks = static_cast<int>(members.size());
  std::vector<std::string> remarks;
  for (std::size_t i = 0; i < ran->reasons.size(); ++i)
    for (const auto& text : {throttle_text(ran->reasons[i]), company_text(node.readings[i], own_pid())})
      if (!text.empty()) remarks.push_back(node.devices[i]->where() + ": " + text);
  figure.remark = join(remarks, "; ");
  return figure;
}

// For comparison only: NCCL made ready first, then everything else, instead of both at once.
bool in_series() {
  const char* order = std::getenv("NCCL_CHECK_ORDER");
  return order != nullptr && std::strcmp(order, "series") == 0;
}

}  // namespace

bool flipped(Operation operation) {
  const char* wanted = std::getenv("NCCL_CHECK_TEST_FLIP");
  Operation named{};
  return wanted != nullptr && verdict::parse(wanted, named) && named == operation;
}

Effort effort_of(const Task& task, Operation operation) {
  return {std::max(1, task.warmups), task.iterations, task.seed, task.verify, flipped(operation)};
}

Trouble reserve(Node& node, std::uint64_t bytes, std::uint64_t pinned, Deadline deadline) {
  Batch batch(node.crew, "allocating buffers", deadline);
  for (std::size_t i = 0; i < node.devices.size(); ++i)
    batch.add(Node::gpu_thread(i), node.devices[i]->where(),
              [&node, bytes, pinned, i](const Patience&) -> Trouble {
                auto& device = *node.devices[i];
                device.use();
                device.reserve(bytes);
                if (pinned > 0) device.pin(pinned);
                if (device.trouble() && device.out_of_memory())
                  return with_holders(*device.trouble(), node, i);
                return device.trouble();
              });
  return batch.wait();
}

void add_connect(Batch& batch, Node& node, Members& members, const UniqueIdBytes& id, bool own_threads) {
  ncclUniqueId unique{};
  std::copy(id.begin(), id.end(), std::begin(unique.internal));
  for (std::size_t i = 0; i < members.size(); ++i)
    batch.add(own_threads ? Node::init_thread(i) : Node::gpu_thread(i), node.devices[i]->where(),
              [&node, &member = *members[i], unique, own_threads, i](const Patience& patience) -> Trouble {
                if (own_threads) bind_near(node.root, node.chosen[i].gpu.pci);
                if (auto trouble = node.devices[i]->take_context()) return trouble;
                return member.connect(unique, patience);
              });
}

Measured<Ran> run_collective_on(Node& node, Members& members, const Task& task, Deadline deadline) {
  const auto samples = shared_results<Samples>(members.size());
  const auto reasons = shared_results<std::uint64_t>(members.size());
  Collective what{task.operation, usable_bytes(task.operation, members[0]->ranks(), task.bytes),
                  effort_of(task, task.operation)};
  Batch batch(node.crew, fmt::format("measuring {}", verdict::name(task.operation)), deadline);
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto own = what;
    own.effort.flip = what.effort.flip && i == 0;
    batch.add(Node::gpu_thread(i), node.devices[i]->where(),
              [&node, &member = *members[i], own, samples, reasons, i](const Patience& patience) {
                const auto meanwhile = [&] { (*reasons)[i] = reasons_now(node, i); };
                return run_collective(node.nccl, member, own, patience, meanwhile, (*samples)[i]);
              });
  }
  if (auto trouble = batch.wait()) return *trouble;
  Ran out;
  out.reasons = *reasons;
  out.samples = (*samples)[0];
  for (std::size_t i = 1; i < samples->size(); ++i) {
    const auto& own = (*samples)[i];
    for (std::size_t k = 0; k < own.times.size(); ++k)
      out.samples.times[k] = std::max(out.samples.times[k], own.times[k]);
    out.samples.wrong += own.wrong;
    if (out.samples.first_wrong.empty()) out.samples.first_wrong = own.first_wrong;
  }
  return out;
}

Measured<std::vector<Figure>> measure_node(Node& node, const Task& task, Deadline deadline) {
  const auto ranks = static_cast<int>(node.devices.size());
  const auto needed = std::max(least_buffer, buffer_for(task.operation, ranks, task.bytes));
  // NCCL's initialisation works on the host for most of its time, while the GPUs measure what needs no NCCL.
  Batch connecting(node.crew, "NCCL's initialisation", deadline);
  Members& members = node.alone;
  if (ranks > 1) {
    for (int rank = 0; rank < ranks; ++rank)
      members.push_back(std::make_unique<Communicator>(
          node.nccl, *node.devices[static_cast<std::size_t>(rank)], rank, ranks, true));
    add_connect(connecting, node, members, node.ids.back(), true);
    if (in_series())
      if (auto trouble = connecting.wait()) return *trouble;
  }
  if (auto trouble = reserve(node, needed, std::min(most_pinned, needed / 2), deadline)) return *trouble;
  std::vector<Figure> figures;
  if (auto trouble = add_links(node, task, deadline, figures)) return *trouble;
  if (ranks == 1) return figures;
  if (auto trouble = connecting.wait()) return *trouble;
  auto figure = collective_figure(node, members, task, deadline);
  if (!figure) return figure.failure();
  figures.insert(figures.begin(), std::move(*figure));
  return figures;
}

}  // namespace nccl_check::engine::nccl
