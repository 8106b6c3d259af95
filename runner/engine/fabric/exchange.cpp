#include "engine/fabric/exchange.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/text.hpp"
#include "engine/fabric/pattern.hpp"
#include "engine/fabric/sum.hpp"

namespace nccl_check::engine::fabric {
namespace {

using verdict::Class;

constexpr Clock::duration beat_every = Milliseconds(50);
constexpr Clock::duration longest_wait = Milliseconds(50);
constexpr Clock::duration soon = Milliseconds(1);  // after -FI_EAGAIN

constexpr int message_bits = 15;  // messages are numbered modulo this in tags, far more than can be under way
constexpr int kind_bits = 2;
constexpr int hash_bits = tag_bits - kind_bits - message_bits;

Failure untested(Error error) {
  return Failure{Class::untested, std::move(error)};
}

Failure hung(std::string what) {
  return Failure{Class::hung, Error{std::move(what), "", ""}};
}

constexpr std::uint64_t greeting_seed = 0x6E63636C2D636865;

std::uint64_t line_hash(std::uint64_t seed, std::uint64_t iteration, int from, int to) {
  const auto ends = (static_cast<std::uint64_t>(from) << 32U) | static_cast<std::uint32_t>(to);
  return mix(mix(seed, iteration), ends) >> (64 - hash_bits);
}

template <class Kind>
std::uint64_t make_tag(std::uint64_t hash, Kind kind, std::uint64_t message) {
  return (hash << (kind_bits + message_bits)) | (static_cast<std::uint64_t>(kind) << message_bits) |
         (message & ((std::uint64_t{1} << message_bits) - 1));
}

std::byte* locate(const Memory& memory, const Span& span, std::uint64_t slot) {
  switch (span.in) {
    case Span::In::input:
      return memory.input() + span.offset;
    case Span::In::output:
      return memory.output() + span.offset;
    case Span::In::slot:
      return memory.slot(slot);
  }
  return nullptr;
}

}  // namespace

std::string Peer::text() const {
  return fmt::format("rank {} ({})", rank, role);
}

Exchange::Exchange(std::vector<Rail>& rails, const Heartbeat& heartbeat)
    : rails_(rails), heartbeat_(heartbeat) {
  depth_ = rails_.front().depth();
  for (const auto& rail : rails_) depth_ = std::min(depth_, rail.depth());
}

void Exchange::Line::start(std::size_t rail_count, std::size_t depth, std::uint64_t line) {
  window.assign(rail_count * depth, Posted{});
  posted = 0;
  done = 0;
  rails = rail_count;
  hash = line;
}

void Exchange::beat() {
  const auto now = Clock::now();
  if (now - last_beat_ < beat_every) return;
  last_beat_ = now;
  if (heartbeat_) heartbeat_();
}

void Exchange::breathe() {
  beat();
  // Nothing of this rank's is under way now, so nothing completes; who has gone shows in the next wait.
  for (auto& rail : rails_) (void)rail.poll(completions_);
  completions_.clear();
}

Measured<Unit> Exchange::tell_both(std::uint64_t seed, std::uint64_t iteration, std::size_t most_rails_each,
                                   Deadline deadline) {
  tokens_.clear();
  const auto add_tokens = [&](const Peer& peer, bool receive, Kind kind) {
    const std::uint64_t hash = receive ? line_hash(seed, iteration, peer.rank, neighbours_.self)
                                       : line_hash(seed, iteration, neighbours_.self, peer.rank);
    for (std::size_t rail = 0; rail < std::min(most_rails_each, peer.rails.size()); ++rail)
      tokens_.push_back({&peer, receive, rail, make_tag(hash, kind, rail)});
  };
  add_tokens(neighbours_.previous, true, Kind::to_next);
  add_tokens(neighbours_.next, true, Kind::to_previous);
  add_tokens(neighbours_.next, false, Kind::to_next);
  add_tokens(neighbours_.previous, false, Kind::to_previous);
  tokens_left_ = tokens_.size();

  for (;;) {
    auto status = post_tokens();
    if (!status) return status;
    status = complete();
    if (!status) return status;
    beat();
    if (tokens_left_ == 0) return Unit{};
    if (deadline.passed()) {
      std::vector<std::string> missing;
      for (const Token& token : tokens_)
        if (!token.posted || token.post.pending)
          missing.push_back(fmt::format("{} {} on {}", token.receive ? "a word from" : "a way to",
                                        token.peer->text(), rails_[token.rail].name()));
      return hung(fmt::format("{}: the deadline passed while waiting for {}", what_, join(missing, ", ")));
    }
    if (moved_) continue;
    status = wait(deadline);
    if (!status) return status;
  }
}

// Each by itself: a neighbour that can't be reached must not keep the word from the other one.
Measured<Unit> Exchange::post_tokens() {
  static std::byte nothing{};
  try_again_ = false;
  for (Token& token : tokens_) {
    if (token.posted) continue;
    token.post.token = true;
    token.post.receive = token.receive;
    token.post.peer = token.peer->rank;
    Rail& rail = rails_[token.rail];
    const long rc = token.receive
                        ? rail.receive(&nothing, 0, token.tag, token.post)
                        : rail.send(&nothing, 0, token.peer->rails[token.rail], token.tag, token.post);
    token.posted = rc == 0;
    if (rc == -FI_EAGAIN) try_again_ = true;
    if (rc != 0 && rc != -FI_EAGAIN)
      return untested(
          rail.failed((token.receive ? "receiving from " : "sending to ") + token.peer->text(), rc));
  }
  return Unit{};
}

Measured<Unit> Exchange::greet(const Neighbours& neighbours, Deadline deadline) {
  neighbours_ = neighbours;
  what_ = "connecting";
  return tell_both(greeting_seed, 0, rails_.size(), deadline);
}

Measured<Unit> Exchange::begin(const Neighbours& neighbours, const Name& name, const Schedule& schedule,
                               const Memory& memory, Deadline deadline) {
  neighbours_ = neighbours;
  what_ = name.what;
  schedule_ = &schedule;
  memory_ = &memory;
  const int self = neighbours.self;
  in_.start(neighbours.previous.rails.size(), depth_,
            line_hash(name.seed, name.iteration, neighbours.previous.rank, self));
  out_.start(neighbours.next.rails.size(), depth_,
             line_hash(name.seed, name.iteration, self, neighbours.next.rank));
  auto status = post_receives();
  if (!status) return status;
  return tell_both(name.seed, name.iteration, 1, deadline);
}

Measured<Unit> Exchange::finish(Deadline deadline) {
  const std::uint64_t all = schedule_->messages();
  for (;;) {
    auto status = post_receives();
    if (!status) return status;
    status = post_sends();
    if (!status) return status;
    if (in_.done == all && out_.done == all) break;
    status = complete();
    if (!status) return status;
    beat();
    if (deadline.passed())  // who takes nothing and who gives nothing look alike here: both are named, with
                            // counts
      return hung(
          fmt::format("{}: the deadline passed with {} of {} messages received from {} and {} sent to {}",
                      what_, in_.done, all, neighbours_.previous.text(), out_.done, neighbours_.next.text()));
    if (moved_) continue;
    status = wait(deadline);
    if (!status) return status;
  }
  schedule_ = nullptr;
  return Unit{};
}

Measured<Unit> Exchange::post_receives() {
  const std::uint64_t all = schedule_->messages();
  try_again_ = false;
  while (in_.posted < all && !in_.full() && out_.done >= schedule_->sends_before(in_.posted)) {
    const std::uint64_t message = in_.posted;
    const Span span = schedule_->receive(message);
    Posted& post = in_.at(message);
    post = Posted{};
    post.receive = true;
    post.peer = neighbours_.previous.rank;
    post.bytes = span.bytes;
    if (span.bytes > 0) {
      Rail& rail = rails_[message % in_.rails];
      const long rc = rail.receive(locate(*memory_, span, message % in_.window.size()), span.bytes,
                                   make_tag(in_.hash, Kind::data, message), post);
      if (rc == -FI_EAGAIN) {
        try_again_ = true;
        break;
      }
      if (rc != 0) return untested(rail.failed("receiving from " + neighbours_.previous.text(), rc));
    }
    ++in_.posted;
  }
  return Unit{};
}

Measured<Unit> Exchange::post_sends() {
  const std::uint64_t all = schedule_->messages();
  while (out_.posted < all && !out_.full() && out_.posted < in_.done + schedule_->ready_at_first()) {
    const std::uint64_t message = out_.posted;
    const Span span = schedule_->send(message);
    Posted& post = out_.at(message);
    post = Posted{};
    post.peer = neighbours_.next.rank;
    if (span.bytes > 0) {
      const std::size_t number = message % out_.rails;
      Rail& rail = rails_[number];
      const long rc = rail.send(locate(*memory_, span, 0), span.bytes, neighbours_.next.rails[number],
                                make_tag(out_.hash, Kind::data, message), post);
      if (rc == -FI_EAGAIN) {
        try_again_ = true;
        break;
      }
      if (rc != 0) return untested(rail.failed("sending to " + neighbours_.next.text(), rc));
    }
    ++out_.posted;
  }
  return Unit{};
}

Measured<Unit> Exchange::complete() {
  completions_.clear();
  for (auto& rail : rails_) {
    auto status = rail.poll(completions_);
    if (!status) return untested(status.error());
  }
  return settle();
}

Measured<Unit> Exchange::settle() {
  moved_ = !completions_.empty();
  for (const auto& completion : completions_) {
    Posted* const post = completion.post;
    if (!completion.error.empty()) {
      const Peer& peer = post != nullptr && post->peer == neighbours_.previous.rank ? neighbours_.previous
                                                                                    : neighbours_.next;
      return untested(Error{fmt::format("{}: {} failed: {}", what_,
                                        post == nullptr ? "the connection"
                                        : post->receive ? "receiving from " + peer.text()
                                                        : "sending to " + peer.text(),
                                        completion.error),
                            completion.where, ""});
    }
    if (post == nullptr) continue;
    post->pending = false;
    if (post->receive && completion.bytes != post->bytes)
      return untested(
          Error{fmt::format("{}: a message of {} bytes came from rank {} where one of {} was expected", what_,
                            completion.bytes, post->peer, post->bytes),
                completion.where, "all nodes must run the same nccl-check and the same task"});
    if (post->token) --tokens_left_;
  }
  if (schedule_ != nullptr) advance();
  if (moved_) waiter_.moved();
  return Unit{};
}

void Exchange::advance() {
  while (in_.next_is_done()) {
    process(in_.done++);
    moved_ = true;
  }
  while (out_.next_is_done()) {
    ++out_.done;
    moved_ = true;
  }
}

void Exchange::process(std::uint64_t message) {
  const Span span = schedule_->adds_to(message);
  if (span.bytes == 0) return;
  add(reinterpret_cast<float*>(memory_->output() + span.offset),
      reinterpret_cast<const float*>(memory_->input() + span.offset),
      reinterpret_cast<const float*>(memory_->slot(message % in_.window.size())), span.bytes / sizeof(float));
}

Measured<Unit> Exchange::wait(Deadline deadline) {
  Clock::duration limit = std::min<Clock::duration>(longest_wait, deadline.left());
  if (try_again_) limit = std::min<Clock::duration>(limit, soon);
  completions_.clear();
  auto status = waiter_.wait(rails_, limit, completions_);
  if (!status) return untested(status.error());
  return settle();
}

}  // namespace nccl_check::engine::fabric
