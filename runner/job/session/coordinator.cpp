#include "job/session/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "base/units.hpp"
#include "job/session/node_scope.hpp"
#include "report/lines.hpp"

namespace nccl_check::job {
namespace {

using verdict::Class;
using verdict::Operation;

// One operation should take about this long at the limit: long enough to hide latency, short enough for many
// samples.
constexpr double operation_seconds = 0.08;
// ... and at what was measured at most this long, so that a very slow node does not eat the whole budget.
constexpr double slow_operation_seconds = 0.25;
// Of the line rate, where a site gave no limit: a healthy ring or pair reaches 0.9 and more (facts of
// libfabric over tcp).
constexpr double line_share = 0.75;
// What a first look takes, and no size is smaller: enough to get the better of latency, on any network.
constexpr std::uint64_t first_bytes = 256 * 1024;
constexpr std::uint64_t first_gpu_bytes = 8U << 20U;
constexpr int first_batch = 3;
constexpr int next_batch = 4;
constexpr int pair_batch = 6;
// An address holds what that many different partners of one worker need (engine nccl: a unique id each).
constexpr int rounds_in_address = 4;
// After a failure whose cause may lie elsewhere: the time that a gate needs to see that its own worker gives
// no sign of life.
constexpr auto local_cause_wait = Milliseconds(2600);
constexpr auto other_causes_wait = Milliseconds(300);
// Of the nodes that are not a pass, in a message to each node: about 50 KB.
constexpr std::size_t most_told = 200;
// Of the time that is left, for the nodes to open their devices and to measure alone: a node with many GPUs
// takes seconds for its driver's first start, and a participant gives its worker a little less.
constexpr double opening_share = 0.7;
// How long after the deadline for the verdict the culprits may take to act, and the one among them to fail
// the job: Slurm's controller may be stopped, and the gates have to be back all the same.
constexpr auto acted_by = Milliseconds(1000);
constexpr auto failed_by = Milliseconds(1900);

std::uint64_t power_of_two_below(double bytes) {
  std::uint64_t size = 4096;
  while (static_cast<double>(size) * 2 <= bytes && size < (1ULL << 40U)) size *= 2;
  return size;
}

double milliseconds(Clock::duration t) {
  return std::chrono::duration<double, std::milli>(t).count();
}

double median(const std::vector<double>& values) {
  // The judge's own estimate; against a limit of no consequence.
  const auto judgement = verdict::judge(values, 1);
  return judgement ? judgement->estimate : 0;
}

// Samples that can't be judged (none at all, or no number) are more to be measured, never a pass.
verdict::Judgement judged(const std::vector<double>& values, double limit) {
  const auto judgement = verdict::judge(values, limit);
  return judgement ? *judgement : verdict::Judgement{};
}

// A cause within a node that is the node's own fault; what could not run at all is nobody's.
bool accuses(const Failed& failed) {
  return failed.cls == Class::hung || failed.cls == Class::broken || failed.cls == Class::corrupt;
}

std::uint32_t limit_ms(Clock::duration t) {
  return static_cast<std::uint32_t>(std::clamp(milliseconds(t), 1.0, 600'000.0));
}

}  // namespace

Coordinator::Coordinator(CoordinatorSettings settings, Clock::time_point now)
    : settings_(std::move(settings)),
      began_(now),
      verdict_by_(now + Milliseconds(settings_.budget_ms)),
      phase_limit_(now + Milliseconds(std::min(settings_.join_ms, settings_.budget_ms))) {
  for (std::size_t i = 0; i < settings_.nodes.size(); ++i) {
    members_.push_back({});
    members_.back().node = settings_.nodes[i];
    pending_.insert(i);
  }
}

// ---- what arrives

void Coordinator::message(std::size_t node, MessageType type, std::string_view payload,
                          Clock::time_point now) {
  auto& member = members_[node];
  const auto unfit = [&](const Error& error) { left(node, "said " + error.text(), now); };
  switch (type) {
    case MessageType::join: {
      auto join = decode<Join>(payload);
      if (!join) return unfit(join.error());
      if (member.join) return left(node, "joined twice", now);
      member.here = true;
      member.join = std::move(*join);
      if (phase_ == Phase::joining) pending_.erase(node);
      break;
    }
    case MessageType::ready: {
      auto ready = decode<Ready>(payload);
      if (!ready) return unfit(ready.error());
      member.ready = std::move(*ready);
      if (phase_ == Phase::opening || phase_ == Phase::rechecking || phase_ == Phase::restarting)
        pending_.erase(node);
      break;
    }
    case MessageType::connected:
    case MessageType::measured: {
      auto answer = decode<Answer>(payload);
      if (!answer) return unfit(answer.error());
      if (answer->id != member.expected || !pending_.contains(node)) break;  // of a round that is over
      if (type == MessageType::connected && network_.empty()) {
        network_ = answer->connected.network;
        if (!answer->connected.remark.empty())
          network_ += (network_.empty() ? "" : "; ") + answer->connected.remark;
      }
      samples_[node] = std::move(answer->samples);
      pending_.erase(node);
      break;
    }
    case MessageType::failed: {
      auto failed = decode<Failed>(payload);
      if (!failed) return unfit(failed.error());
      failed->text = printable(failed->text, 500);
      if (failures_.contains(node)) break;
      const bool stale = failed->id != 0 && failed->id != member.expected;
      if (stale && !failed->local) break;
      if (failed->local || pending_.contains(node)) {
        failures_[node] = *failed;
        pending_.erase(node);
        if (cuts_short(*failed))
          phase_limit_ = std::min(phase_limit_, now + (failed->local ? Clock::duration(other_causes_wait)
                                                                     : Clock::duration(local_cause_wait)));
      }
      break;
    }
    case MessageType::acted: {
      auto acted = decode<Acted>(payload);
      if (!acted) return unfit(acted.error());
      if (phase_ == Phase::failing) {
        verdict::parse(acted->text, fate_);  // any other text: it could not be failed, so it runs
      } else {
        acted->text = printable(acted->text);
        acted_[node] = *acted;
      }
      pending_.erase(node);
      break;
    }
    default:
      return left(
          node, fmt::format("said something of type {} that only a coordinator says", static_cast<int>(type)),
          now);
  }
  tick(now);
}

void Coordinator::left(std::size_t node, const std::string& why, Clock::time_point now) {
  auto& member = members_[node];
  if (phase_ == Phase::finished || !member.gone.empty()) return;
  member.here = false;
  member.gone = why;
  if (member.part && phase_ != Phase::acting && phase_ != Phase::failing && !failures_.contains(node)) {
    failures_[node] = {0, Class::untested, "", "its gate went away: " + why, true};
    if (cuts_short(failures_[node]))
      phase_limit_ = std::min(phase_limit_, now + Clock::duration(other_causes_wait));
  }
  pending_.erase(node);
  tick(now);
}

void Coordinator::tick(Clock::time_point now) {
  if (phase_ == Phase::finished) return;
  const bool before_verdict = phase_ != Phase::acting && phase_ != Phase::failing;
  if (before_verdict && now >= verdict_by_ && phase_ != Phase::joining) return out_of_time(now);
  if (phase_ == Phase::pairing) {
    bool all = true;
    for (auto& pair : pairs_) {
      if (!pair.over) advance_pair(pair, now);
      all = all && pair.over;
    }
    if (all) end_pairing(now);
    return;
  }
  if (phase_ == Phase::topology) return;
  if (pending_.empty() || now >= phase_limit_) phase_over(now);
}

// Whether what happened to one node ends what the others are at: a round of all nodes can't go on without it,
// and an accusation ends the check. A node that only leaves does not keep the others from opening.
bool Coordinator::cuts_short(const Failed& failed) const {
  switch (phase_) {
    case Phase::connecting:
    case Phase::calibrating:
    case Phase::measuring:
      return true;
    case Phase::opening:
    case Phase::rechecking:
      return accuses(failed);
    default:
      return false;
  }
}

// What is known by the deadline has to do. Nodes that still owe an answer are named; that alone accuses
// nobody.
void Coordinator::out_of_time(Clock::time_point now) {
  const bool all_nodes =
      phase_ == Phase::connecting || phase_ == Phase::calibrating || phase_ == Phase::measuring;
  if (phase_ == Phase::opening || phase_ == Phase::rechecking)
    for (auto i : pending_)
      fault(i, Class::untested, false, "no answer in stage open by the deadline", "no answer");
  std::vector<std::string> silent;
  for (auto i : pending_) silent.push_back(members_[i].node);
  if (all_nodes && failures_.empty()) {
    localizing_ = Class::hung;
    hang_text_ = fmt::format("no answer from {} by the deadline", compress_hostlist(silent));
    return conclude(now);
  }
  if (!all_nodes || !take_faults(now)) conclude(now);
  // A search that was begun just now has no time left.
  if (phase_ != Phase::acting && phase_ != Phase::failing && phase_ != Phase::finished) conclude(now);
}

Clock::time_point Coordinator::next_tick() const {
  if (phase_ == Phase::acting || phase_ == Phase::failing) return phase_limit_;
  return std::min(phase_limit_, verdict_by_);
}

std::vector<Outgoing> Coordinator::take_outgoing() {
  return std::exchange(outgoing_, {});
}

void Coordinator::phase_over(Clock::time_point now) {
  switch (phase_) {
    case Phase::joining:
      return begin_opening(now);
    case Phase::opening:
    case Phase::rechecking:
      return end_opening(now);
    case Phase::connecting:
      if (take_faults(now)) return;
      if (settings_.collective == Operation::send_recv)
        return begin_localizing(Class::pass, now);  // pairs are all there is
      return begin_calibrating(now);
    case Phase::calibrating:
      if (!take_faults(now)) begin_measuring(now);
      return;
    case Phase::measuring:
      if (!take_faults(now)) end_measuring(now);
      return;
    case Phase::restarting:
      return begin_pairing(now);  // who is not ready by now is found there
    case Phase::acting:
      return end_acting(now);
    case Phase::failing:
      return finish("fail-job");
    case Phase::topology:
    case Phase::pairing:
    case Phase::finished:
      return;
  }
}

// ---- who takes part

bool Coordinator::mismatched(const std::vector<std::size_t>& nodes, bool versions) {
  std::set<std::string> keys;
  const auto of = [&](std::size_t i) -> const std::map<std::string, std::string>& {
    return versions ? members_[i].ready->description.versions : members_[i].join->settings;
  };
  for (auto i : nodes)
    for (const auto& [key, value] : of(i)) keys.insert(key);
  std::vector<std::string> texts;
  for (const auto& key : keys) {
    std::map<std::string, std::vector<std::string>> by_value;
    for (auto i : nodes) {
      const auto found = of(i).find(key);
      by_value[found == of(i).end() ? "(none)" : found->second].push_back(members_[i].node);
    }
    if (by_value.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [value, names] : by_value)
      parts.push_back(fmt::format("{} on {}", printable(value, 60), compress_hostlist(names)));
    texts.push_back(fmt::format("{}: {}", printable(key, 60), join(parts, ", ")));
  }
  if (texts.empty()) return false;
  verdict_.cls = Class::mismatched;
  verdict_.job_at_fault = true;
  verdict_.summary = "the nodes differ in " + join(texts, "; ");
  return true;
}

void Coordinator::begin_opening(Clock::time_point now) {
  std::vector<std::size_t> here;
  std::vector<std::size_t> reusing;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto& member = members_[i];
    if (!member.here) {
      fault(i, Class::untested, false,
            member.gone.empty() ? fmt::format("did not join within {}", format_seconds(now - began_))
                                : printable(member.gone, 300),
            "did not join");
      continue;
    }
    switch (member.join->participation) {
      case Participation::measure:
        ranks_.push_back(i);
        here.push_back(i);
        break;
      case Participation::reuse:
        reusing.push_back(i);
        here.push_back(i);
        break;
      case Participation::off:
      case Participation::untested:
        fault(i, Class::untested, false, member.join->why, member.join->why);
        break;
    }
  }
  if (mismatched(here, false)) return conclude(now);
  // A node alone among nodes with recent verdicts needs one of them as its partner.
  if (ranks_.size() == 1 && settings_.job_scope && !reusing.empty()) {
    const auto nearest = *std::min_element(reusing.begin(), reusing.end(), [&](std::size_t a, std::size_t b) {
      const auto distance = [&](std::size_t i) { return i > ranks_[0] ? i - ranks_[0] : ranks_[0] - i; };
      return distance(a) < distance(b);
    });
    send(nearest, MessageType::start, "{}");
    ranks_.push_back(nearest);
    std::sort(ranks_.begin(), ranks_.end());
  }
  if (ranks_.empty()) {
    for (auto i : reusing) verdict_.busbw = std::max(verdict_.busbw, members_[i].join->reused_busbw);
    return conclude(now);
  }
  phase_ = Phase::opening;
  std::set<std::size_t> missing;
  for (auto i : ranks_) {
    members_[i].part = true;
    if (!members_[i].ready && !failures_.contains(i)) missing.insert(i);
  }
  await(missing, opening_time(now), now);
  tick(now);
}

void Coordinator::end_opening(Clock::time_point now) {
  // Where a failure cut the time short, whoever is still at it has nothing to answer for.
  if (now >= round_limit_)
    for (auto i : pending_) failures_[i] = {0, Class::untested, "open", "no answer in stage open", true};
  // A node that can't open its devices is left out; the others are still worth measuring, unless a node is to
  // blame.
  std::vector<std::size_t> rest;
  bool blame = false;
  for (auto i : ranks_) {
    const auto failed = failures_.find(i);
    if (failed == failures_.end()) {
      rest.push_back(i);
      continue;
    }
    const auto& f = failed->second;
    blame = blame || accuses(f);
    fault(i, f);
    members_[i].part = false;
  }
  failures_.clear();
  ranks_ = rest;
  if (blame || ranks_.empty()) return conclude(now);
  if (mismatched(ranks_, true)) return conclude(now);

  std::set<std::size_t> again;
  for (auto i : ranks_) {
    auto& member = members_[i];
    member.held = std::max(member.ready->description.ranks, 1);
    if (member.ready->alone.empty()) continue;
    member.figures = std::exchange(member.ready->alone, {});
    for (const auto& figure : member.figures)
      if (figure.operation == Operation::all_reduce) member.inside = figure.ceiling;
    const auto finding = judge_figures(member.figures, member.join->limits, member.suspect);
    if (finding.cls == Class::pass) continue;
    if (finding.cls == Class::slow && !member.suspect) {
      member.suspect = finding.slow;
      again.insert(i);
      continue;
    }
    fault(i, finding.cls, true, finding.detail, finding.reason);
    verdict_.nodes.back().busbw = finding.busbw;
    verdict_.nodes.back().limit = finding.limit;
    blame = true;
  }
  take_node_scope();
  if (blame) return conclude(now);
  if (!again.empty()) {  // never on one measurement: once more in a fresh worker
    phase_ = Phase::rechecking;
    for (auto i : again) {
      expect_answer(i);
      send(i, MessageType::restart, encode(Restart{members_[i].expected, true, -1, 0}));
      members_[i].ready.reset();
    }
    return await(again, opening_time(now), now);
  }
  if (!settings_.job_scope || ranks_.size() < 2) return conclude(now);
  begin_connecting(now);
}

// ---- all nodes together

void Coordinator::begin_connecting(Clock::time_point now) {
  phase_ = Phase::connecting;
  // NCCL's initialisation grows with the ranks: seconds for a thousand.
  const auto limit =
      on_gpus() ? left_of(now) / 2 : std::min<Clock::duration>(std::chrono::seconds(4), left_of(now) / 3);
  const auto n = ranks_.size();
  const int all = ranks_in(ranks_);
  for (int next = 0; auto i : ranks_) next = (members_[i].first_rank = next) + members_[i].held;
  const auto address = [&](std::size_t rank) { return members_[ranks_[rank % n]].ready->address; };
  for (std::size_t r = 0; r < n; ++r) {
    expect_answer(ranks_[r]);
    Connect connect{members_[ranks_[r]].expected, {}, limit_ms(limit)};
    connect.place = {members_[ranks_[r]].first_rank, all, "", "", address(0)};
    if (settings_.collective != Operation::send_recv) {
      connect.place.next = address(r + 1);
      connect.place.previous = address(r + n - 1);
    }
    send(ranks_[r], MessageType::connect, encode(connect));
  }
  await({ranks_.begin(), ranks_.end()}, limit + Milliseconds(500), now);
}

void Coordinator::begin_calibrating(Clock::time_point now) {
  phase_ = Phase::calibrating;
  const auto bytes = settings_.size != 0 ? std::min(settings_.size, settings_.most_bytes) : least_bytes();
  measure_all(bytes, 1, 1, left_of(now) / 3, now);
}

void Coordinator::begin_measuring(Clock::time_point now) {
  phase_ = Phase::measuring;
  const auto first = combined(settings_.collective, ranks_);
  const double seen = first.empty() ? 0 : first.front();
  const double factor = verdict::bus_factor(settings_.collective, ranks_in(ranks_));
  if (settings_.size != 0) {
    bytes_ = std::min(settings_.size, settings_.most_bytes);
  } else {
    const double limit = limit_of(settings_.collective, ranks_).busbw;
    bytes_ = size_for(seen, limit, limit / 6, factor);
  }
  measure_all(bytes_, 1, first_batch, left_of(now) * 2 / 5, now);
}

void Coordinator::end_measuring(Clock::time_point now) {
  const auto more = combined(settings_.collective, ranks_);
  values_.insert(values_.end(), more.begin(), more.end());
  for (const auto& [node, samples] : samples_) {
    if (samples.wrong == 0) continue;
    wrong_ += samples.wrong;
    if (first_wrong_.empty()) first_wrong_ = members_[node].node + ": " + samples.first_wrong;
  }
  const double limit = limit_of(settings_.collective, ranks_).busbw;
  verdict_.busbw = median(values_);
  verdict_.limit = limit;
  if (wrong_ > 0) return begin_localizing(Class::corrupt, now);

  // A user's own number is judged by the median alone, so on as many samples as an accusation needs.
  if (settings_.wanted_busbw > 0 && values_.size() < verdict::Rule{}.least_slow)
    return measure_all(bytes_, 0, next_batch, left_of(now) / 2, now);
  // The all-node round triggers the search, it accuses nobody.
  const double least = std::max(limit, settings_.wanted_busbw);
  if (least > 0) {
    const auto judgement = verdict::judge_trigger(values_, least);
    if (judgement && judgement->more) return measure_all(bytes_, 0, next_batch, left_of(now) / 2, now);
    if (limit > 0) {
      const auto against_limit = verdict::judge_trigger(values_, limit);
      if (!against_limit || against_limit->slow()) return begin_localizing(Class::slow, now);
    }
  }
  conclude(now);
}

// Failures of a round in which all nodes took part. A cause within a node ends the check; peers that wait for
// one another without one are a hang across nodes, which fresh workers in pairs may explain.
bool Coordinator::take_faults(Clock::time_point now) {
  // Where a failure cut the round short, whoever is still at it has nothing to answer for.
  if (now >= round_limit_)
    for (auto i : pending_) failures_[i] = {0, Class::untested, "", "its gate stopped answering", true};
  if (failures_.empty()) return false;
  bool local = false;
  for (const auto& [i, f] : failures_) {
    if (!f.local) continue;
    local = true;
    fault(i, f);
  }
  if (local) {
    conclude(now);
    return true;
  }
  bool hung = false;
  for (const auto& [i, f] : failures_) {
    hung = hung || f.cls == Class::hung;
    if (hang_text_.empty() || f.cls == Class::hung)
      hang_text_ = fmt::format("{}: {}", members_[i].node, f.text);
  }
  begin_localizing(hung ? Class::hung : Class::untested, now);
  return true;
}

// ---- pairs

void Coordinator::begin_localizing(Class cls, Clock::time_point now) {
  localizing_ = cls;
  failures_.clear();
  samples_.clear();
  pending_.clear();
  phase_ = Phase::topology;
  phase_limit_ = verdict_by_;
  if (ranks_.size() < 4 || left_of(now) < std::chrono::seconds(1)) set_topology({}, now);
}

void Coordinator::set_topology(const std::map<std::string, std::string>& leaf_of, Clock::time_point now) {
  if (phase_ != Phase::topology) return;
  std::vector<localization::Node> nodes;
  for (auto i : ranks_) {
    const auto leaf = leaf_of.find(members_[i].node);
    nodes.push_back({members_[i].node, leaf == leaf_of.end() ? "" : leaf->second});
  }
  localization::Settings settings;
  // A worker that lost its peer for no cause of its own is looked for as a hang is: in pairs of fresh
  // workers.
  settings.all_nodes = localizing_ == Class::untested ? Class::hung
                       : localizing_ == Class::pass   ? Class::slow
                                                      : localizing_;
  localization_.emplace(std::move(nodes), settings);
  next_round(now);
}

void Coordinator::next_round(Clock::time_point now) {
  pairs_.clear();
  const auto round = localization_->next_round();
  if (!round) return conclude(now);
  std::set<std::size_t> restart;
  for (const auto& pair : round->pairs) {
    pairs_.emplace_back().nodes = pair;
    for (auto i : members_of(pairs_.back()))
      if (round->fresh || spent_.contains(i)) restart.insert(i);
  }
  if (restart.empty()) return begin_pairing(now);
  begin_restarting(restart, now);
}

void Coordinator::begin_restarting(const std::set<std::size_t>& nodes, Clock::time_point now) {
  phase_ = Phase::restarting;
  failures_.clear();
  for (auto i : nodes) {
    spent_.erase(i);
    expect_answer(i);
    members_[i].ready.reset();
    send(i, MessageType::restart,
         encode(Restart{members_[i].expected, false, members_[i].first_rank, ranks_in(ranks_)}));
  }
  await(nodes, left_of(now) / 2, now);
  tick(now);
}

void Coordinator::begin_pairing(Clock::time_point now) {
  phase_ = Phase::pairing;
  ++round_;
  samples_.clear();
  pending_.clear();
  // A round may take two fifths of what is left, but two seconds in any case, so that there is time for the
  // next ones.
  const auto share = std::min<Clock::duration>(left_of(now) * 2 / 5, std::chrono::seconds(6));
  phase_limit_ = now + std::min(left_of(now), std::max<Clock::duration>(share, std::chrono::seconds(2)));
  for (auto& pair : pairs_) {
    const auto nodes = members_of(pair);
    pair.limit = limit_of(Operation::send_recv, {nodes[0], nodes[1]}).busbw;
    measure_pair(pair, 1, pair_batch, now);
  }
  tick(now);
}

void Coordinator::measure_pair(Pair& pair, int warmups, int iterations, Clock::time_point now) {
  const auto [a, b] = members_of(pair);
  Measure measure;
  measure.task.operation = Operation::send_recv;
  // All rails of a pair together take the time that this size is for; a task names one's share.
  const auto rails = static_cast<std::uint64_t>(std::min(members_[a].held, members_[b].held));
  measure.task.bytes = std::max(size_for(verdict_.busbw, pair.limit, pair.limit / 3, 1) / rails,
                                std::min(first_bytes, settings_.most_bytes));
  measure.task.warmups = warmups;
  measure.task.iterations = iterations;
  measure.task.seed = ++last_seed_;
  measure.task.round = round_ % rounds_in_address;
  measure.limit_ms = limit_ms(phase_limit_ - now);
  for (auto [self, other] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!members_[self].ready || !members_[other].ready) continue;  // advance_pair() sees it
    expect_answer(self);
    measure.id = members_[self].expected;
    measure.task.partner = members_[other].ready->address;
    measure.task.partner_rank = members_[other].first_rank;
    samples_.erase(self);
    pending_.insert(self);
    send(self, MessageType::measure, encode(measure));
  }
}

void Coordinator::pair_over(Pair& pair, localization::Finding finding, std::vector<std::size_t> lost) {
  pair.over = true;
  for (auto i : members_of(pair)) {
    pending_.erase(i);
    if (finding == localization::Finding::hung || failures_.contains(i) || !members_[i].ready)
      spent_.insert(i);
  }
  if (localization::bad(finding) && localizing_ == Class::pass) localizing_ = Class::slow;
  if (finding == localization::Finding::fast) {
    const double busbw = median(pair.values);
    if (slowest_pair_ <= 0 || busbw < slowest_pair_) slowest_pair_ = busbw;
  }
  localization::Measurement measurement{pair.nodes, finding, 0, pair.values.size(), std::move(lost)};
  if (finding != localization::Finding::hung && finding != localization::Finding::failed)
    measurement.busbw = median(pair.values);
  if (auto recorded = localization_->record(measurement); !recorded)
    hang_text_ =
        recorded.error().text();  // shown with the verdict: a measurement that can't be used is no secret
}

void Coordinator::advance_pair(Pair& pair, Clock::time_point now) {
  using localization::Finding;
  const auto nodes = members_of(pair);
  const std::array<std::size_t, 2> ranks{pair.nodes.a, pair.nodes.b};
  // A cause within one of the two says nothing about the other.
  std::vector<std::size_t> lost;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto i = nodes[k];
    const auto failed = failures_.find(i);
    const bool local = failed != failures_.end() && failed->second.local;
    if (!local && members_[i].ready && members_[i].here) continue;
    lost.push_back(ranks[k]);
    if (local && accuses(failed->second)) fault(i, failed->second);
  }
  if (!lost.empty()) return pair_over(pair, Finding::failed, lost);

  const bool waiting = pending_.contains(nodes[0]) || pending_.contains(nodes[1]);
  const bool failed = failures_.contains(nodes[0]) || failures_.contains(nodes[1]);
  // The other one's gate may still find a cause within it.
  if (waiting && now < phase_limit_ + Milliseconds(500)) return;
  if (waiting || failed) return pair_over(pair, Finding::hung);

  const auto values = combined(Operation::send_recv, {nodes[0], nodes[1]});
  pair.values.insert(pair.values.end(), values.begin(), values.end());
  for (auto i : nodes) {
    const auto& samples = samples_[i];
    pair.corrupt = pair.corrupt || samples.wrong > 0;
    if (samples.wrong > 0 && first_wrong_.empty())
      first_wrong_ = members_[i].node + ": " + samples.first_wrong;
  }
  note_rails(pair);
  const auto speed = pair.limit > 0 ? judged(pair.values, pair.limit) : verdict::Judgement{};
  pair.cpu = std::min(pair.cpu, (1 - samples_[nodes[0]].starved) * (1 - samples_[nodes[1]].starved));
  const bool enough = pair.values.size() >= verdict::Rule{}.least_slow;
  if (pair.corrupt && enough) return pair_over(pair, Finding::corrupt);
  if (pair.limit > 0 && localizing_ != Class::corrupt && speed.more && now < phase_limit_)
    return measure_pair(pair, 0, next_batch, now);
  if (!speed.slow() || localizing_ == Class::corrupt) return pair_over(pair, Finding::fast);
  // Slow for want of a CPU says nothing of a network.
  if (speed.estimate >= pair.cpu * pair.limit) {
    busy_.insert(nodes.begin(), nodes.end());
    return pair_over(pair, Finding::failed);
  }
  pair_over(pair, Finding::slow);
}

// A pair is as fast as its slowest rail. Where one of several is much slower than the rest, its devices are
// named for both nodes; who of the two is to blame, other pairs tell.
void Coordinator::note_rails(const Pair& pair) {
  constexpr double much = 0.8;
  const auto nodes = members_of(pair);
  const auto count = std::min(samples_[nodes[0]].rails.size(), samples_[nodes[1]].rails.size());
  if (count < 2) return;
  std::vector<double> rates;
  for (std::size_t k = 0; k < count; ++k) {
    const auto slowest =
        verdict::combine(std::vector{samples_[nodes[0]].rails[k].times, samples_[nodes[1]].rails[k].times});
    if (!slowest) return;
    rates.push_back(
        median(verdict::rates(Operation::send_recv, 2, samples_[nodes[0]].bytes / count, *slowest)));
  }
  const auto slow = static_cast<std::size_t>(std::min_element(rates.begin(), rates.end()) - rates.begin());
  const double usual = median(rates);
  if (rates[slow] >= much * usual) return;
  for (auto i : nodes) {
    members_[i].slow_device = samples_[i].rails[slow].device;
    members_[i].slow_rail = fmt::format(", slowest on {}: {} GB/s of the usual {}", members_[i].slow_device,
                                        format_rate(rates[slow]), format_rate(usual));
  }
}

void Coordinator::end_pairing(Clock::time_point now) {
  for (auto& pair : pairs_)
    for (std::size_t k = 0; k < 2; ++k) {
      const auto i = members_of(pair)[k];
      if (!members_[i].here) localization_->lose(k == 0 ? pair.nodes.a : pair.nodes.b);
    }
  failures_.clear();
  samples_.clear();
  next_round(now);
}

// ---- what it means

void Coordinator::fault(std::size_t node, Class cls, bool culprit, const std::string& detail,
                        const std::string& reason) {
  verdict::NodeVerdict verdict;
  verdict.node = members_[node].node;
  verdict.cls = cls;
  verdict.culprit = culprit;
  verdict.detail = detail;
  verdict.reason = reason;
  verdict_.nodes.push_back(std::move(verdict));
}

void Coordinator::fault(std::size_t node, const Failed& failed) {
  fault(node, failed.cls, accuses(failed), failed.text,
        fmt::format("{} {}", verdict::name(failed.cls), failed.text));
}

int Coordinator::ranks_in(const std::vector<std::size_t>& nodes) const {
  int ranks = 0;
  for (auto i : nodes) ranks += members_[i].held;
  return ranks;
}

// The bus bandwidth of a check without other nodes: the slowest node's.
void Coordinator::take_node_scope() {
  if (settings_.job_scope && ranks_.size() > 1) return;
  for (auto i : ranks_) {
    const auto* figure = main_figure(members_[i].figures);
    if (figure == nullptr || figure->ranks < 2) continue;
    const double rate = figure_rate(*figure);
    if (verdict_.busbw > 0 && rate >= verdict_.busbw) continue;
    verdict_.busbw = rate;
    verdict_.limit = figure_limit(*figure, members_[i].join->limits).busbw;
  }
}

std::string Coordinator::place_text() const {
  const auto& ready = members_[ranks_.front()].ready;
  const std::string device = ready ? printable(ready->description.device_text, 60) : "";
  const std::size_t n = ranks_.size();
  if (!ready || ready->description.engine != "nccl")
    return fmt::format("on {} nodes{}", n, device.empty() ? "" : " over " + device);
  const int held = members_[ranks_.front()].held;
  const bool alike =
      std::all_of(ranks_.begin(), ranks_.end(), [&](auto i) { return members_[i].held == held; });
  if (n == 1) return fmt::format("on {} {}", held, device);
  return alike ? fmt::format("on {}x{} {}", n, held, device)
               : fmt::format("on {} {} of {} nodes", ranks_in(ranks_), device, n);
}

// Of the nodes' own figures: the slowest node's, by what stands for a node.
std::string Coordinator::alone_text() const {
  std::optional<std::size_t> slowest;
  std::size_t measured = 0;
  const auto main = [&](std::size_t i) { return main_figure(members_[i].figures); };
  for (auto i : ranks_) {
    if (main(i) == nullptr) continue;
    ++measured;
    if (!slowest || figure_rate(*main(i)) < figure_rate(*main(*slowest))) slowest = i;
  }
  if (!slowest) return "";
  const auto& member = members_[*slowest];
  const auto* figure = main(*slowest);
  const bool gpus = member.ready && member.ready->description.engine == "nccl";
  std::string text = figure_text(*figure, figure_limit(*figure, member.join->limits),
                                 gpus ? member.ready->description.device_text : "ranks");
  if (gpus && figure->ranks < 2) text += ", one GPU, so there is no bus bandwidth";
  if (measured > 1)
    text = fmt::format("{} nodes measured alone, the slowest is {}: {}", measured, member.node, text);
  return text;
}

// What was measured, and what went wrong while it was.
std::string Coordinator::measured_text() const {
  std::vector<std::string> parts;
  const auto add_limit = [&](const Limit& limit) {
    parts.push_back(limit.busbw > 0 ? fmt::format("limit {} ({})", format_rate(limit.busbw), limit.source)
                                    : "no limit is known");
  };
  if (settings_.collective == Operation::send_recv && slowest_pair_ > 0) {
    parts.push_back(fmt::format("send/recv in pairs of {} nodes: {} GB/s between the slowest that are fast",
                                ranks_.size(), format_rate(slowest_pair_)));
    add_limit(limit_of(Operation::send_recv, ranks_));
  }
  if (!values_.empty()) {
    parts.push_back(fmt::format("{} {} {}: {} GB/s busbw", verdict::name(settings_.collective),
                                format_size(bytes_), place_text(), format_rate(verdict_.busbw)));
    add_limit(limit_of(settings_.collective, ranks_));
  }
  if (!network_.empty()) parts.push_back("over " + network_);
  if (parts.empty())
    if (auto alone = alone_text(); !alone.empty()) parts.push_back(alone);
  std::string text = join(parts, ", ");
  if (!hang_text_.empty()) text += (text.empty() ? "" : "; ") + hang_text_;
  if (wrong_ > 0) text += fmt::format("; {} wrong elements, first {}", wrong_, first_wrong_);
  return text;
}

void Coordinator::conclude(Clock::time_point now) {
  const std::string took = format_seconds(now - began_);
  for (const auto& node : verdict_.nodes) verdict_.cls = verdict::worse(verdict_.cls, node.cls);
  std::string text = verdict_.summary;

  if (localization_) {
    const auto outcome = localization_->outcome();
    for (const auto& culprit : outcome.culprits) accuse(culprit);
    for (auto n : outcome.missing) {
      const auto& node = members_[ranks_[n]].node;
      const bool told = std::any_of(verdict_.nodes.begin(), verdict_.nodes.end(),
                                    [&](const verdict::NodeVerdict& v) { return v.node == node; });
      if (!told) fault(ranks_[n], Class::untested, false, "could not be measured in pairs", "not measured");
    }
    const bool any = std::any_of(verdict_.nodes.begin(), verdict_.nodes.end(),
                                 [](const verdict::NodeVerdict& v) { return v.culprit; });
    for (const auto& node : verdict_.nodes) verdict_.cls = verdict::worse(verdict_.cls, node.cls);
    const bool busy = !any && localizing_ == Class::slow && !busy_.empty() && outcome.paths.empty();
    if (!any) verdict_.cls = verdict::worse(verdict_.cls, busy ? Class::untested : localizing_);
    text = measured_text();
    if (busy) {
      std::vector<std::string> names;
      for (auto i : busy_) names.push_back(members_[i].node);
      text +=
          fmt::format("; the CPUs of {} are busy with something else, so nothing can be said of the network",
                      compress_hostlist(names));
    } else if (!any && localizing_ != Class::pass) {
      text += (text.empty() ? "" : "; ") + outcome.summary;
    }
    if (localizing_ == Class::pass) verdict_.busbw = slowest_pair_;
    std::vector<std::string> paths;
    for (const auto& path : outcome.paths) paths.push_back("the path " + path.text);
    if (!paths.empty()) text += "; " + join(paths, "; ");
  } else if (text.empty()) {
    text = measured_text();
    if (localizing_ != Class::pass) {
      verdict_.cls = verdict::worse(verdict_.cls, localizing_);
      text += "; the time was over before a culprit could be looked for";
    }
  }
  if (verdict_.cls == Class::pass && verdict_.busbw > 0 && settings_.wanted_busbw > 0 &&
      localizing_ == Class::pass && verdict_.busbw < settings_.wanted_busbw) {
    verdict_.cls = Class::slow;
    verdict_.job_at_fault = true;
    text += fmt::format(", the job wanted {} (busbw=)", format_rate(settings_.wanted_busbw));
  }
  if (text.empty()) {
    std::size_t reused = 0;
    for (const auto& member : members_)
      if (member.here && member.join && member.join->participation == Participation::reuse && !member.part)
        ++reused;
    std::size_t alone = 0;
    for (auto i : ranks_)
      if (members_[i].ready) ++alone;
    if (reused > 0 && ranks_.empty())
      text = fmt::format("a recent verdict on {} of {} nodes stands", reused, members_.size());
    else if (alone > 0)
      text = fmt::format("{} of {} nodes measured alone", alone, members_.size());
    else
      text = "nothing was measured";
  }
  verdict_.summary = fmt::format("{}, {}", text, took);
  begin_acting(now);
}

void Coordinator::accuse(const localization::Suspect& culprit) {
  const std::size_t i = ranks_[culprit.index];
  std::vector<std::string> partners;
  for (const auto& partner : culprit.partners) partners.push_back(partner.node);
  const auto limit = limit_of(Operation::send_recv, {i});
  std::string detail;
  std::string reason;
  if (culprit.cls == Class::slow) {
    detail = fmt::format("{}{}, limit {} ({})", culprit.measured, members_[i].slow_rail,
                         format_rate(limit.busbw), limit.source);
    const auto& device = members_[i].slow_device;
    reason = fmt::format("slow {}send/recv {} < {} GB/s with {}", device.empty() ? "" : device + ": ",
                         format_rate(culprit.busbw), format_rate(limit.busbw), fmt::join(partners, ","));
  } else {
    detail = fmt::format("{}{}", culprit.measured,
                         culprit.cls == Class::corrupt && !first_wrong_.empty() ? ", " + first_wrong_ : "");
    reason = fmt::format("{} send/recv with {}", verdict::name(culprit.cls), fmt::join(partners, ","));
  }
  fault(i, culprit.cls, true, detail, reason);
  verdict_.nodes.back().partners = partners;
  verdict_.nodes.back().busbw = culprit.busbw;
  verdict_.nodes.back().limit = limit.busbw;
}

// ---- what is done about it

std::optional<std::size_t> Coordinator::first_here() const {
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].here) return i;
  return std::nullopt;
}

std::vector<std::size_t> Coordinator::deciders() const {
  std::vector<std::size_t> out;
  for (const auto& node : verdict_.nodes)
    if (node.culprit && members_[index_of(node.node)].here) out.push_back(index_of(node.node));
  if (out.empty())
    if (auto first = first_here()) out.push_back(*first);
  return out;
}

std::size_t Coordinator::index_of(const std::string& node) const {
  std::size_t i = 0;
  while (i < members_.size() && members_[i].node != node) ++i;
  return i;
}

void Coordinator::begin_acting(Clock::time_point now) {
  phase_ = Phase::acting;
  pending_.clear();
  failures_.clear();
  VerdictMessage message;
  // It goes to every node, so it is bounded, however many peers are missing: culprits first, whom the nodes
  // decide by. The lines, which come with the last word, name all.
  message.job = verdict_;
  auto& told = message.job.nodes;
  std::stable_partition(told.begin(), told.end(), [](const auto& node) { return node.culprit; });
  if (told.size() > most_told) told.resize(most_told);
  message.seconds = std::chrono::duration<double>(now - began_).count();
  std::map<std::string, const verdict::NodeVerdict*> own;
  for (const auto& node : verdict_.nodes) own[node.node] = &node;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].here) continue;
    const auto found = own.find(members_[i].node);
    message.own = found == own.end() ? std::nullopt : std::optional(*found->second);
    send(i, MessageType::verdict, encode(message));
  }
  if (verdict_.cls == Class::pass) return finish("allow");
  const auto who = deciders();
  await({who.begin(), who.end()}, verdict_by_ + acted_by - now, now);
}

void Coordinator::end_acting(Clock::time_point now) {
  for (auto i : deciders()) {
    const auto acted = acted_.find(i);
    if (acted != acted_.end() && acted->second.job_fails && !actor_) actor_ = i;
  }
  if (!actor_) return finish("warn");
  phase_ = Phase::failing;
  FailJob order;
  for (const auto& node : verdict_.nodes) {
    if (!node.culprit) continue;
    order.out.push_back(node.node);
    const auto acted = acted_.find(index_of(node.node));
    if (acted == acted_.end() || !acted->second.drained) order.avoid.push_back(node.node);
  }
  order.hold = order.out.empty();
  order.requeued = lines(verdict::Fate::requeued);
  order.held = lines(verdict::Fate::held);
  order.cancelled = lines(verdict::Fate::cancelled);
  send(*actor_, MessageType::fail_job, encode(order));
  await({*actor_}, verdict_by_ + failed_by - now, now);
}

std::vector<std::string> Coordinator::lines(verdict::Fate fate) const {
  std::map<std::string, std::string> done;
  std::vector<std::string> out;
  for (const auto& [i, acted] : acted_) done[members_[i].node] = acted.text;
  for (const auto& node : verdict_.nodes)
    if (node.culprit) out.push_back(node.node);
  return report::lines(verdict_, settings_.nodes, done, fate, out);
}

void Coordinator::finish(const std::string& action) {
  Final final{lines(fate_), actor_.has_value(), action};
  for (const auto& [i, acted] : acted_)
    if (acted.drained) final.action = "drain";
  const auto payload = encode(final);
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].here) send(i, MessageType::final, payload);
  phase_ = Phase::finished;
}

// ---- small things

void Coordinator::send(std::size_t node, MessageType type, std::string payload) {
  outgoing_.push_back({node, type, std::move(payload)});
}

void Coordinator::await(const std::set<std::size_t>& nodes, Clock::duration limit, Clock::time_point now) {
  pending_.clear();
  for (auto i : nodes)
    if (members_[i].here) pending_.insert(i);
  phase_limit_ = round_limit_ = now + limit;
}

Clock::duration Coordinator::left_of(Clock::time_point now) const {
  return std::max<Clock::duration>(verdict_by_ - now, Milliseconds(1));
}

Clock::duration Coordinator::opening_time(Clock::time_point now) const {
  return std::chrono::duration_cast<Clock::duration>(opening_share * left_of(now));
}

void Coordinator::measure_all(std::uint64_t bytes, int warmups, int iterations, Clock::duration limit,
                              Clock::time_point now) {
  samples_.clear();
  failures_.clear();
  Measure measure;
  measure.task.operation = settings_.collective;
  measure.task.bytes = bytes;
  measure.task.warmups = warmups;
  measure.task.iterations = iterations;
  measure.task.seed = ++last_seed_;
  measure.limit_ms = limit_ms(limit);
  for (auto i : ranks_) {
    expect_answer(i);
    measure.id = members_[i].expected;
    send(i, MessageType::measure, encode(measure));
  }
  await({ranks_.begin(), ranks_.end()}, limit + Milliseconds(500), now);
}

bool Coordinator::on_gpus() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](auto i) {
    return members_[i].ready && members_[i].ready->description.engine == "nccl";
  });
}

std::uint64_t Coordinator::least_bytes() const {
  return std::min(on_gpus() ? first_gpu_bytes : first_bytes, settings_.most_bytes);
}

// A size that takes operation_seconds at the limit, and less where what was seen would take too long over it;
// at `least` (GB/s) it still takes that long. `factor`: busbw / algbw.
std::uint64_t Coordinator::size_for(double seen, double limit, double least, double factor) const {
  const double gigabytes = limit > 0 ? std::clamp(seen * slow_operation_seconds, least * operation_seconds,
                                                  limit * operation_seconds)
                                     : seen * operation_seconds;
  return std::clamp(power_of_two_below(gigabytes * 1e9 / factor), least_bytes(), settings_.most_bytes);
}

// Nothing, where the ranks' samples do not fit together: then there is more to be measured.
std::vector<double> Coordinator::combined(Operation operation, const std::vector<std::size_t>& nodes) {
  std::vector<std::vector<Nanoseconds>> times;
  for (auto i : nodes) times.push_back(samples_[i].times);
  const auto slowest = verdict::combine(times);
  if (!slowest) return {};
  return verdict::rates(operation, ranks_in(nodes), samples_[nodes.back()].bytes, *slowest);
}

// By its own configuration; where that says nothing, a share of what its network devices carry by their own
// word.
Limit Coordinator::node_limit(Operation operation, std::size_t node) const {
  const auto& member = members_[node];
  if (!member.join) return {};
  const auto found = member.join->limits.find(operation);
  if (found != member.join->limits.end() && found->second.busbw > 0) return found->second;
  if (operation == Operation::memory_copy || !member.ready || member.ready->description.line_rate <= 0)
    return {};
  const auto& description = member.ready->description;
  // A collective's data passes within the node, too.
  if (member.inside > 0 && member.inside < description.line_rate && operation != Operation::send_recv)
    return {line_share * member.inside, fmt::format("{} of what the node's GPUs carry", line_share)};
  return {line_share * description.line_rate,
          fmt::format("{} of {}", line_share, printable(description.line_text, 60))};
}

// The lowest of the nodes' limits: what all of them together can be asked for. None, where one node has none.
Limit Coordinator::limit_of(Operation operation, const std::vector<std::size_t>& nodes) const {
  Limit least;
  for (auto i : nodes) {
    const auto limit = node_limit(operation, i);
    if (limit.busbw <= 0) return {};
    if (least.busbw <= 0 || limit.busbw < least.busbw) least = limit;
  }
  return least;
}

}  // namespace nccl_check::job
