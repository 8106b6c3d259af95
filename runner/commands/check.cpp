#include "commands/check.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <array>
#include <deque>

#include "base/log.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "job/rendezvous/client.hpp"
#include "job/rendezvous/munge_credentials.hpp"
#include "job/session/coordinator_process.hpp"
#include "report/lines.hpp"

namespace nccl_check::commands {
namespace {

using job::MessageType;
using verdict::Class;

volatile sig_atomic_t stop_signal = 0;

// How the messages get to the coordinator and back: over the network, or within the process for a single
// node.
class Link {
 public:
  virtual ~Link() = default;
  struct Message {
    MessageType type;
    std::string payload;
  };
  virtual void send(MessageType type, const std::string& payload) = 0;
  virtual std::vector<Message> receive() = 0;
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual Deadline next_check() const = 0;
  [[nodiscard]] virtual std::string broken() const = 0;  // why no more will come; "": it works
  virtual void flush() {}
};

class LocalLink : public Link {
 public:
  LocalLink(const job::CoordinatorSettings& settings, const std::string& hello)
      : coordinator_(settings, Clock::now()) {
    coordinator_.message(0, MessageType::join, hello, Clock::now());
  }
  void send(MessageType type, const std::string& payload) override {
    coordinator_.message(0, type, payload, Clock::now());
  }
  std::vector<Message> receive() override {
    coordinator_.tick(Clock::now());
    if (coordinator_.wants_topology()) coordinator_.set_topology({}, Clock::now());
    std::vector<Message> messages;
    for (auto& out : coordinator_.take_outgoing()) messages.push_back({out.type, std::move(out.payload)});
    return messages;
  }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] Deadline next_check() const override { return Deadline(coordinator_.next_tick()); }
  [[nodiscard]] std::string broken() const override { return ""; }

 private:
  job::Coordinator coordinator_;
};

class NetworkLink : public Link {
 public:
  NetworkLink(const CheckSetup& setup, const std::string& hello) {
    if (setup.root_addresses.empty()) {
      broken_ = setup.address_problem;
      return;
    }
    if (setup.node == setup.coordinator.nodes.front()) {
      auto child = job::start_coordinator(setup.program,
                                          {setup.coordinator, setup.identity, setup.ports, setup.accepted_uid,
                                           setup.munge_socket, setup.topology_command});
      if (!child) {
        broken_ = child.error().text();
        return;
      }
      coordinator_ = std::move(*child);
    }
    auto credentials = rendezvous::MungeCredentials::start({setup.accepted_uid, setup.munge_socket});
    if (!credentials) {
      broken_ = credentials.error().text();
      return;
    }
    auto client = rendezvous::Client::start({setup.identity, setup.ports, setup.node,
                                             setup.coordinator.nodes.front(), setup.root_addresses, hello},
                                            std::move(*credentials), setup.verdict_by);
    if (!client) {
      broken_ = client.error().text();
      return;
    }
    client_.emplace(std::move(*client));
  }

  void send(MessageType type, const std::string& payload) override {
    waiting_.push_back({type, payload});
    send_waiting();
  }
  std::vector<Message> receive() override {
    std::vector<Message> messages;
    if (!client_) return messages;
    for (auto& frame : client_->advance())
      messages.push_back({static_cast<MessageType>(frame.type), std::move(frame.payload)});
    if (client_->state() == rendezvous::Client::State::failed) broken_ = client_->error().text();
    send_waiting();
    return messages;
  }
  [[nodiscard]] int fd() const override { return client_ ? client_->fd() : -1; }
  [[nodiscard]] Deadline next_check() const override { return Deadline::in(std::chrono::seconds(1)); }
  [[nodiscard]] std::string broken() const override { return broken_; }
  void flush() override {
    if (client_ && broken_.empty()) {
      auto flushed = client_->flush(Deadline::in(Milliseconds(200)));
      if (!flushed) log(Level::warning, flushed.error().text());
    }
    // The coordinator ends by itself when all its peers have the last word and are gone, this node's own end
    // too.
    client_.reset();
    coordinator_.wait(Deadline::in(Milliseconds(600)));
  }

 private:
  void send_waiting() {
    if (!client_ || client_->state() != rendezvous::Client::State::joined) return;
    for (; !waiting_.empty(); waiting_.pop_front()) {
      const auto& message = waiting_.front();
      auto sent = client_->send(static_cast<std::uint16_t>(message.type), message.payload);
      if (!sent) log(Level::warning, sent.error().text());
    }
  }

  Child coordinator_;
  std::optional<rendezvous::Client> client_;
  std::deque<Message> waiting_;  // what was to be said before the coordinator was met
  std::string broken_;
};

// Without a word from the coordinator this node says what it knows by itself.
CheckOutcome conclude_alone(const CheckSetup& setup, const job::Participant& participant,
                            const std::string& why, Clock::time_point began) {
  CheckOutcome outcome;
  verdict::NodeVerdict own;
  own.node = setup.node;
  own.cls = Class::untested;
  own.detail = why;
  if (const auto& failure = participant.own_failure(); failure && failure->local) {
    own.cls = failure->cls;
    own.detail = failure->text;
  } else if (setup.participant.join.participation != job::Participation::measure &&
             setup.participant.join.participation != job::Participation::reuse) {
    own.detail = setup.participant.join.why;
  }
  // Alone nobody is to blame: that takes the coordinator's view of all nodes.
  own.reason = own.detail;
  outcome.own = own;
  outcome.verdict.cls = own.cls;
  outcome.verdict.nodes = {own};
  outcome.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  outcome.verdict.summary =
      fmt::format("{} heard nothing more, {}", setup.node, format_seconds(Clock::now() - began));
  outcome.action = "warn";
  outcome.lines = report::lines(outcome.verdict, setup.coordinator.nodes, {}, report::Fate::runs, {});
  return outcome;
}

CheckOutcome outcome_of(const CheckSetup& setup, const job::Participant& participant) {
  CheckOutcome outcome;
  const auto& message = *participant.verdict();
  outcome.from_coordinator = true;
  outcome.verdict = message.job;
  outcome.own = message.own;
  outcome.seconds = message.seconds;
  outcome.acted = participant.acted();
  if (const auto& word = participant.final_word()) {
    outcome.lines = word->lines;
    outcome.job_fails = word->job_fails;
    outcome.action = word->action;
  } else {
    outcome.action = message.job.cls == Class::pass ? "allow" : "warn";
    std::map<std::string, std::string> done;
    if (outcome.acted) done[setup.node] = outcome.acted->text;
    outcome.lines = report::lines(message.job, setup.coordinator.nodes, done, report::Fate::runs, {});
  }
  return outcome;
}

}  // namespace

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int number) { stop_signal = number; };
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

CheckOutcome run_check(const CheckSetup& setup, const CheckHooks& hooks) {
  const auto began = Clock::now();
  std::unique_ptr<Link> link;
  job::Participant participant(
      setup.participant, {[&](MessageType type, const std::string& payload) { link->send(type, payload); },
                          [&](const job::VerdictMessage& message) {
                            // The verdict is on record before anything is done about it, whatever becomes of
                            // the calls.
                            CheckOutcome first;
                            first.from_coordinator = true;
                            first.verdict = message.job;
                            first.own = message.own;
                            first.seconds = message.seconds;
                            first.action = "warn";
                            first.lines = report::lines(message.job, setup.coordinator.nodes, {},
                                                        report::Fate::runs, {});
                            hooks.note(first);
                            return hooks.decide(message);
                          },
                          hooks.fail_job});
  if (setup.coordinator.nodes.size() == 1)
    link = std::make_unique<LocalLink>(setup.coordinator, participant.hello());
  else
    link = std::make_unique<NetworkLink>(setup, participant.hello());
  participant.begin();

  std::string why;
  while (!participant.final_word()) {
    for (const auto& message : link->receive()) participant.message(message.type, message.payload);
    participant.advance();
    if (participant.final_word()) break;
    if (stop_signal != 0) {
      why = fmt::format("ended by signal {} in stage {}", static_cast<int>(stop_signal), participant.stage());
    } else if (!participant.protocol_error().empty()) {
      why = participant.protocol_error();
    } else if (!link->broken().empty()) {
      why = link->broken();
    } else if (!participant.verdict() && setup.verdict_by.passed()) {
      why = fmt::format("no verdict from {} by the deadline, in stage {}", setup.coordinator.nodes.front(),
                        participant.stage());
    } else if (setup.return_by.passed()) {
      why = "the last word did not come in time";
    }
    if (!why.empty()) break;
    auto next = participant.next_check().earlier(link->next_check());
    next = next.earlier(participant.verdict() ? setup.return_by : setup.verdict_by);
    std::array<pollfd, 2> fds{{{link->fd(), POLLIN, 0}, {participant.worker_fd(), POLLIN, 0}}};
    // A link within the process may have its next message ready already.
    ::poll(fds.data(), fds.size(), link->fd() < 0 ? std::min(next.poll_ms(), 5) : next.poll_ms());
  }
  participant.end_worker();
  CheckOutcome outcome =
      participant.verdict() ? outcome_of(setup, participant) : conclude_alone(setup, participant, why, began);
  if (participant.verdict() && !why.empty()) log(Level::warning, why);
  outcome.description = participant.description();
  hooks.note(outcome);
  link->flush();
  return outcome;
}

}  // namespace nccl_check::commands
