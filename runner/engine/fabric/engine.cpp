#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "engine/fabric/fabric_engine.hpp"
#include "engine/fabric/memory_copy.hpp"
#include "engine/fabric/pattern.hpp"
#include "engine/fabric/set_up.hpp"

namespace nccl_check::engine {

std::unique_ptr<Engine> make_fabric_engine(Heartbeat heartbeat) {
  return std::make_unique<fabric::FabricEngine>(std::move(heartbeat));
}

namespace fabric {
namespace {

using verdict::Class;
using verdict::Operation;

constexpr std::uint64_t piece = 4U << 20U;  // bytes filled or checked between two signs of life

Failure untested(Error error) {
  return Failure{Class::untested, std::move(error)};
}
Failure untested(std::string what, std::string remedy = "") {
  return untested(Error{std::move(what), "", std::move(remedy)});
}

}  // namespace

FabricEngine::FabricEngine(Heartbeat heartbeat, Tamper tamper)
    : heartbeat_(std::move(heartbeat)),
      pause_([this] { exchange_->breathe(); }),
      tamper_(std::move(tamper)) {}

FabricEngine::~FabricEngine() = default;

Measured<Opened> FabricEngine::open(const Settings& settings, Deadline deadline) {
  if (!rails_.empty()) return untested("the engine was opened before");
  settings_ = settings;
  // libfabric's initialisation asks drivers and can take long, or hang: this thread gives the signs of life
  // meanwhile.
  std::packaged_task<Result<SetUp>()> task([settings] { return set_up(settings); });
  auto result = task.get_future();
  std::thread thread(std::move(task));
  while (result.wait_for(Milliseconds(50)) != std::future_status::ready) {
    if (heartbeat_) heartbeat_();
    if (!deadline.passed()) continue;
    thread.detach();  // it owns all that it works on, and ends with the process
    return Failure{Class::hung, Error{"the deadline passed while libfabric was initialised", "", ""}};
  }
  thread.join();
  auto done = result.get();
  if (!done) return untested(done.error());
  rails_ = std::move(done->rails);
  provider_ = done->provider;
  exchange_.emplace(rails_, heartbeat_);
  return done->opened;
}

// Only the rails that both sides have are used, in their order: both count the same ones.
Measured<Peer> FabricEngine::reach(const std::string& address, int rank, const char* role) {
  Peer peer;
  if (const auto known = known_.find(address); known != known_.end()) {
    peer = known->second;
  } else {
    auto node = read_address(address);
    const std::string where = fmt::format("address of rank {}", rank);
    if (!node) {
      Error error = node.error();
      error.where = where;
      return untested(error);
    }
    if (node->provider != provider_)
      return Failure{Class::mismatched, Error{fmt::format("its provider is '{}', this node's is '{}'",
                                                          printable(node->provider, 40), provider_),
                                              where, "name the same provider on all nodes"}};
    for (std::size_t i = 0; i < std::min(rails_.size(), node->endpoints.size()); ++i) {
      if (auto fits = rails_[i].fits(node->endpoints[i]); !fits)
        return Failure{Class::mismatched, Error{fits.error().what, where, fits.error().remedy}};
      auto at = rails_[i].add_peer(node->endpoints[i]);
      if (!at) return untested(at.error());
      peer.rails.push_back(*at);
    }
    known_[address] = peer;
  }
  peer.rank = rank;
  peer.role = role;
  return peer;
}

Measured<Connected> FabricEngine::connect(const Place& place, Deadline deadline) {
  if (!exchange_) return untested("the engine has not been opened");
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks)
    return untested(fmt::format("rank {} of {} is no place in a ring", place.rank, place.ranks));
  rank_ = place.rank;
  ranks_ = place.ranks;
  Neighbours ring;
  ring.self = rank_;
  if (ranks_ > 1 && place.next.empty() && place.previous.empty())
    return Connected{};  // no ring: for pairs only
  if (ranks_ > 1) {
    auto next = reach(place.next, (rank_ + 1) % ranks_, "next");
    if (!next) return next.failure();
    auto previous = reach(place.previous, (rank_ + ranks_ - 1) % ranks_, "previous");
    if (!previous) return previous.failure();
    ring.next = *next;
    ring.previous = *previous;
    auto greeted = exchange_->greet(ring, deadline);
    if (!greeted) {
      failed_ = true;
      return greeted.failure();
    }
  }
  ring_ = std::move(ring);
  return Connected{};
}

Measured<Neighbours> FabricEngine::neighbours_for(const Task& task) {
  if (task.operation != Operation::send_recv) {
    if (!ring_) return untested("the engine has not been connected");
    return *ring_;
  }
  auto partner = reach(task.partner, task.partner_rank, "partner");
  if (!partner) return partner.failure();
  return Neighbours{rank_, *partner, *partner};
}

Measured<std::vector<Figure>> FabricEngine::measure_alone(const Task& task, Deadline deadline) {
  if (task.operation != Operation::memory_copy)
    return untested(fmt::format("{} can't be measured on one node alone", verdict::name(task.operation)));
  if (task.iterations < 1 || task.warmups < 0) return untested("a task needs at least one iteration");
  auto samples = memory_copy(task, settings_.most_bytes, heartbeat_, deadline);
  if (!samples) return samples.failure();
  Figure figure;
  figure.operation = Operation::memory_copy;
  figure.samples = std::move(*samples);
  return std::vector<Figure>{std::move(figure)};
}

Measured<Samples> FabricEngine::measure(const Task& task, Deadline deadline) {
  if (task.operation != Operation::all_reduce && task.operation != Operation::all_gather &&
      task.operation != Operation::send_recv)
    return untested(fmt::format("{} is none between nodes", verdict::name(task.operation)));
  if (task.iterations < 1 || task.warmups < 0) return untested("a task needs at least one iteration");
  if (!exchange_) return untested("the engine has not been opened");
  if (failed_) return untested("an earlier task failed in this worker", "start a fresh one");
  if (task.operation == Operation::all_reduce && ranks_ > most_ranks)
    return untested(fmt::format("sums are exact up to {} ranks, here are {}", most_ranks, ranks_),
                    "measure all_gather or send/recv");
  const std::uint64_t bytes = usable_bytes(task.operation, ranks_, task.bytes);
  if (bytes > settings_.most_bytes)
    return untested(fmt::format("{} of {} needs larger buffers than {}", verdict::name(task.operation),
                                format_size(task.bytes), format_size(settings_.most_bytes)),
                    "measure a smaller size");
  if (task.operation == Operation::send_recv && task.partner_rank == rank_)
    return Samples{};  // sits this one out

  auto neighbours = neighbours_for(task);
  if (!neighbours) return neighbours.failure();
  const Schedule schedule(task.operation, rank_, ranks_, bytes);
  auto measured = run(task, schedule, *neighbours, deadline);
  if (!measured) failed_ = true;
  return measured;
}

Status FabricEngine::reserve(const Schedule& schedule) {
  const std::uint64_t slots = schedule.needs_slots() ? exchange_->window() : 0;
  auto status = memory_.reserve(schedule.input_bytes(), schedule.output_bytes(), slots,
                                schedule.chunk_bytes(), pause_, [&] {
                                  for (auto& rail : rails_) rail.forget_memory();
                                });
  for (auto& rail : rails_)
    if (status) status = rail.register_memory(memory_.base(), memory_.size());
  return status;
}

void FabricEngine::fill(const Task& task, const Schedule& schedule) {
  const bool gather = task.operation == Operation::all_gather;
  std::byte* const data = gather
                              ? memory_.output() + schedule.share_bytes() * static_cast<std::uint64_t>(rank_)
                              : memory_.input();
  in_pieces(gather ? schedule.share_bytes() : schedule.input_bytes(), piece, pause_,
            [&](std::uint64_t begin, std::uint64_t end) {
              const std::uint64_t first = begin / 4;
              const std::uint64_t count = (end - begin) / 4;
              if (task.operation == Operation::all_reduce)
                fill_floats(reinterpret_cast<float*>(data) + first, first, count, task.seed, rank_);
              else
                fill_words(reinterpret_cast<std::uint32_t*>(data) + first, first, count, task.seed, rank_);
            });
}

void FabricEngine::wipe(const Task& task, const Schedule& schedule) {
  const bool gather = task.operation == Operation::all_gather;
  const std::uint64_t own_begin = gather ? schedule.share_bytes() * static_cast<std::uint64_t>(rank_) : 0;
  const std::uint64_t own_end = gather ? own_begin + schedule.share_bytes() : 0;
  const auto wipe_range = [&](std::uint64_t from, std::uint64_t to) {
    in_pieces(to - from, piece, pause_, [&](std::uint64_t begin, std::uint64_t end) {
      std::memset(memory_.output() + from + begin, 0xFF, end - begin);  // no number at all, as floats
    });
  };
  wipe_range(0, own_begin);
  wipe_range(own_end, schedule.output_bytes());
}

Wrong FabricEngine::verify(const Task& task, const Schedule& schedule) {
  Wrong wrong;
  const auto words = [&](std::uint64_t at, std::uint64_t bytes, int rank) {
    const auto* data = reinterpret_cast<const std::uint32_t*>(memory_.output() + at);
    in_pieces(bytes, piece, pause_, [&](std::uint64_t begin, std::uint64_t end) {
      wrong.add(check_words(data + begin / 4, begin / 4, (end - begin) / 4, task.seed, rank, at / 4));
    });
  };
  switch (task.operation) {
    case Operation::all_reduce:
      in_pieces(schedule.output_bytes(), piece, pause_, [&](std::uint64_t begin, std::uint64_t end) {
        wrong.add(check_sums(reinterpret_cast<const float*>(memory_.output() + begin), begin / 4,
                             (end - begin) / 4, task.seed, ranks_));
      });
      break;
    case Operation::all_gather:
      for (int rank = 0; rank < ranks_; ++rank)
        words(schedule.share_bytes() * static_cast<std::uint64_t>(rank), schedule.share_bytes(), rank);
      break;
    case Operation::send_recv:
      words(0, schedule.output_bytes(), task.partner_rank);
      break;
    default:
      break;  // measure() refuses the others
  }
  return wrong;
}

Measured<Nanoseconds> FabricEngine::iterate(const Task& task, std::uint64_t iteration,
                                            const Schedule& schedule, const Neighbours& neighbours,
                                            Deadline deadline) {
  if (neighbours.next.rails.empty()) {  // a ring of one
    const auto start = Clock::now();
    if (task.operation == Operation::all_reduce)
      std::memcpy(memory_.output(), memory_.input(), schedule.output_bytes());
    return Nanoseconds(Clock::now() - start);
  }
  const Name name{task.seed, iteration, std::string(verdict::name(task.operation))};
  auto status = exchange_->begin(neighbours, name, schedule, memory_, deadline);
  if (!status) return status.failure();
  const auto start = Clock::now();
  status = exchange_->finish(deadline);
  if (!status) return status.failure();
  return Nanoseconds(Clock::now() - start);
}

Measured<Samples> FabricEngine::run(const Task& task, const Schedule& schedule, const Neighbours& neighbours,
                                    Deadline deadline) {
  if (auto status = reserve(schedule); !status) return untested(status.error());
  fill(task, schedule);
  Samples samples;
  samples.bytes = schedule.output_bytes();
  const int all = task.warmups + task.iterations;
  for (int i = 0; i < all; ++i) {
    // The last result is verified: what an earlier iteration left must not stand in for it.
    if (task.verify && i + 1 == all) wipe(task, schedule);
    auto time = iterate(task, static_cast<std::uint64_t>(i), schedule, neighbours, deadline);
    if (!time) return time.failure();
    if (i >= task.warmups) samples.times.push_back(*time);
  }
  if (tamper_) tamper_(std::span(memory_.output(), schedule.output_bytes()));
  if (task.verify) {
    const Wrong wrong = verify(task, schedule);
    samples.wrong = wrong.count;
    samples.first_wrong = wrong.first;
  }
  return samples;
}

}  // namespace fabric
}  // namespace nccl_check::engine
