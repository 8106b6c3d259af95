#pragma once
// A job's nodes as the coordinator sees them, on a clock that moves only when something is waited for.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "job/session/coordinator.hpp"

namespace nccl_check::job {

struct SimulatedNode {
  double speed = 0.117;  // GB/s of its line
  bool joins = true;
  Participation participation = Participation::measure;
  std::map<std::string, std::string> settings{{"version", "1"}};
  std::map<std::string, std::string> versions{{"libfabric", "1.17"}};
  double memory = 0;         // GB/s of its memory; 0: not measured alone
  double opens_after = 0.3;  // s
  bool open_fails = false;   // after 0.2 s
  verdict::Class open_fails_as = verdict::Class::untested;
  verdict::Class hangs_locally =
      verdict::Class::pass;         // hung: its own gate finds its worker without a sign of life
  bool stuck = false;               // waits for ever in anything with a peer, alive
  bool silent_after_ready = false;  // its gate says nothing any more
  bool corrupt = false;
  int slow_times = 1 << 30;  // how many send/recv commands see the slow speed, then it is healthy
  int gpus = 0;              // ranks of its worker; 0: engine fabric
  int slow_rail = -1;        // of its GPUs, in pairs: its port is at a tenth, the others are healthy
  double starved = 0;        // share of the time without a CPU; slows it down as much
  bool job_fails = true;     // its policy
  bool drains = true;
};

class SimulatedJob {
 public:
  explicit SimulatedJob(std::size_t n) : nodes(n) {
    for (std::size_t i = 0; i < n; ++i) settings.nodes.push_back("n" + std::to_string(i + 1));
    settings.budget_ms = 15'000;
    settings.join_ms = 3'000;
  }

  CoordinatorSettings settings;
  std::vector<SimulatedNode> nodes;
  std::set<std::pair<std::size_t, std::size_t>>
      slow_paths;  // half the limit between these two, whoever they are
  double limit = 0.09;
  std::map<std::string, std::string> leaves;

  // What came of it.
  verdict::JobVerdict verdict;
  Final final;
  std::map<std::size_t, std::optional<verdict::NodeVerdict>> own;
  std::vector<FailJob> fail_orders;
  std::map<std::size_t, engine::Place> places;
  double seconds = 0;
  int pair_commands = 0;
  int restarts = 0;

  void run() {
    const auto began = now_;
    Coordinator c(settings, now_);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!nodes[i].joins) continue;
      Join join;
      join.participation = nodes[i].participation;
      join.why = "because";
      join.settings = nodes[i].settings;
      if (limit > 0) {
        join.limits[verdict::Operation::all_reduce] = {limit, "test rule"};
        join.limits[verdict::Operation::send_recv] = {limit, "test rule"};
        join.limits[verdict::Operation::memory_copy] = {5, "test rule"};
      }
      c.message(i, MessageType::join, encode(join), now_);
      if (join.participation == Participation::measure) open(i, 0, true);
    }
    for (int guard = 0; !c.finished() && guard < 100'000; ++guard) {
      for (auto& out : c.take_outgoing()) obey(out);
      if (c.finished()) break;
      if (c.wants_topology()) {
        c.set_topology(leaves, now_);
        continue;
      }
      // The next thing that happens: an answer, or the coordinator's own patience.
      auto next = std::min_element(events_.begin(), events_.end(),
                                   [](const Event& a, const Event& b) { return a.at < b.at; });
      if (next != events_.end() && next->at <= c.next_tick()) {
        const Event event = *next;
        events_.erase(next);
        now_ = std::max(now_, event.at);
        c.message(event.node, event.type, event.payload, now_);
      } else {
        now_ = std::max(now_, c.next_tick());
        c.tick(now_);
      }
    }
    for (auto& out : c.take_outgoing()) obey(out);
    ended = c.finished();
    seconds = std::chrono::duration<double>(now_ - began).count();
  }
  bool ended = false;

 private:
  struct Event {
    Clock::time_point at;
    std::size_t node;
    MessageType type;
    std::string payload;
  };

  void later(double s, std::size_t node, MessageType type, std::string payload) {
    events_.push_back(
        {now_ + std::chrono::duration_cast<Clock::duration>(Seconds(s)), node, type, std::move(payload)});
  }

  void open(std::size_t i, std::uint32_t id, bool alone) {
    if (nodes[i].open_fails)
      return later(0.2, i, MessageType::failed,
                   encode(Failed{id, nodes[i].open_fails_as, "open", "no libfabric", true}));
    Ready ready;
    ready.description.versions = nodes[i].versions;
    ready.description.device_text = "hs0 (net)";
    if (nodes[i].gpus > 0) {
      ready.description.engine = "nccl";
      ready.description.device_text = "SIMULATED H200";
      ready.description.ranks = nodes[i].gpus;
    }
    ready.address = "address of " + std::to_string(i);
    if (alone && nodes[i].memory > 0) {
      engine::Figure figure;
      figure.operation = verdict::Operation::memory_copy;
      figure.samples.bytes = 1'000'000;
      figure.samples.times.assign(8, Nanoseconds(static_cast<long>(1e6 / nodes[i].memory)));
      ready.alone = {figure};
    }
    later(nodes[i].opens_after, i, MessageType::ready, encode(ready));
  }

  double speed(std::size_t i) {
    return (1 - nodes[i].starved) * (nodes[i].slow_times > 0 ? nodes[i].speed : 0.117);
  }

  void obey(const Outgoing& out) {
    const auto i = out.node;
    switch (out.type) {
      case MessageType::start:
        return open(i, 0, true);
      case MessageType::restart: {
        const auto restart = *decode<Restart>(out.payload);
        ++restarts;
        cancel(i);
        return open(i, restart.id, restart.alone);
      }
      case MessageType::connect: {
        const auto connect = *decode<Connect>(out.payload);
        ranks_ = connect.place.ranks;
        places[i] = connect.place;
        if (nodes[i].silent_after_ready) return;
        return later(0.01, i, MessageType::connected,
                     encode(Answer{connect.id, {}, {nodes[i].gpus > 0 ? "IB mlx5_0:1" : "", ""}}));
      }
      case MessageType::measure:
        return measure(i, *decode<Measure>(out.payload));
      case MessageType::verdict: {
        const auto message = *decode<VerdictMessage>(out.payload);
        verdict = message.job;
        own[i] = message.own;
        if (verdict.cls == verdict::Class::pass) return;
        const bool culprit = message.own && message.own->culprit;
        const bool fails = (culprit || verdict.job_at_fault) && nodes[i].job_fails;
        return later(
            0.05, i, MessageType::acted,
            encode(Acted{culprit && nodes[i].drains ? "drained" : "", culprit && nodes[i].drains, fails}));
      }
      case MessageType::fail_job:
        fail_orders.push_back(*decode<FailJob>(out.payload));
        return later(0.05, i, MessageType::acted, encode(Acted{"requeued", false, false}));
      case MessageType::final:
        final = *decode<Final>(out.payload);
        return;
      default:
        return;
    }
  }

  void cancel(std::size_t i) {
    std::erase_if(events_, [&](const Event& e) { return e.node == i; });
  }

  void measure(std::size_t i, const Measure& m) {
    if (nodes[i].silent_after_ready) return;
    if (nodes[i].hangs_locally != verdict::Class::pass) {
      later(2.0, i, MessageType::failed,
            encode(Failed{m.id, nodes[i].hangs_locally, "all_reduce",
                          "in all_reduce, no sign of life for 2.0 s", true}));
      return;
    }
    const bool pair = m.task.operation == verdict::Operation::send_recv;
    double rate = speed(i);
    bool stuck = nodes[i].stuck;
    bool corrupt = nodes[i].corrupt;
    if (pair) {
      ++pair_commands;
      const auto other = static_cast<std::size_t>(std::stoul(m.task.partner.substr(11)));
      rate = std::min(rate, speed(other));
      if (slow_paths.contains({std::min(i, other), std::max(i, other)})) rate = std::min(rate, limit / 2);
      stuck = stuck || nodes[other].stuck;
      corrupt = corrupt || nodes[other].corrupt;
      if (nodes[other].hangs_locally != verdict::Class::pass || nodes[other].silent_after_ready) stuck = true;
    } else {
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        rate = std::min(rate, speed(k));
        stuck = stuck || nodes[k].stuck || nodes[k].hangs_locally != verdict::Class::pass ||
                nodes[k].silent_after_ready;
        corrupt = corrupt || nodes[k].corrupt;
        const std::size_t next = (k + 1) % nodes.size();
        if (slow_paths.contains({std::min(k, next), std::max(k, next)})) rate = std::min(rate, limit / 2);
      }
    }
    if (stuck)
      return later(m.limit_ms / 1e3, i, MessageType::failed,
                   encode(Failed{m.id, verdict::Class::hung, "measure", "waited for a peer", false}));
    engine::Samples samples;
    samples.bytes = m.task.bytes;
    samples.starved = nodes[i].starved;
    samples.wrong = corrupt ? 3 : 0;
    samples.first_wrong = corrupt ? "element 17: got 3, expected 5" : "";
    const double factor = verdict::bus_factor(m.task.operation, ranks_);
    const double ns = static_cast<double>(m.task.bytes) * factor / rate;
    samples.times.assign(static_cast<std::size_t>(m.task.iterations), Nanoseconds(static_cast<long>(ns)));
    if (pair && nodes[i].gpus > 1)
      add_rails(i, static_cast<std::size_t>(std::stoul(m.task.partner.substr(11))), samples);
    if (pair && nodes[i].slow_times > 0) --nodes[i].slow_times;
    later(ns * 1e-9 * (m.task.iterations + m.task.warmups), i, MessageType::measured,
          encode(Answer{m.id, samples, {}}));
  }

  // The pair takes as long as its slowest rail; the others have a tenth of that time.
  void add_rails(std::size_t i, std::size_t other, engine::Samples& samples) const {
    const auto slow = std::max(nodes[i].slow_rail, nodes[other].slow_rail);
    for (int gpu = 0; gpu < nodes[i].gpus; ++gpu) {
      engine::Rail rail{"GPU " + std::to_string(gpu), samples.times};
      if (slow >= 0 && gpu != slow)
        for (auto& t : rail.times) t /= 10;
      samples.rails.push_back(rail);
    }
  }

  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(1);
  std::vector<Event> events_;
  int ranks_ = 0;
};

}  // namespace nccl_check::job
