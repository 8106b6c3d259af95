#pragma once
// One node's part in a job's check: does with its worker what the coordinator says, and answers. Used by the
// gate (root, in a prolog) and by a step's check (the job's user), which differ only in the hooks.
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/session/messages.hpp"
#include "worker/worker_process.hpp"

namespace nccl_check::job {

struct ParticipantSettings {
  Join join;
  engine::Settings engine;
  std::optional<worker::Options> worker;  // nothing: this node can't measure, and join says why
  std::optional<engine::Task> alone;      // node scope: what to measure here before meeting the peers
  Deadline deadline = Deadline::in(std::chrono::seconds(15));  // the verdict's, not the gate's
};

struct Hooks {
  std::function<void(MessageType, std::string)> send;  // to the coordinator
  std::function<Acted(const VerdictMessage&)> decide;  // what this node does about it, and does it
  std::function<std::string(const FailJob&)>
      fail_job;  // "requeued", "held", "cancelled", "gone", or why it could not
};

class Participant {
 public:
  Participant(ParticipantSettings settings, Hooks hooks);

  // What is said first, when the coordinator is met; the worker need not wait for that.
  [[nodiscard]] std::string hello() const { return encode(settings_.join); }
  void begin();  // starts the worker
  void message(MessageType type, std::string_view payload);
  void advance();  // call when worker_fd() is readable or next_check() has come
  [[nodiscard]] int worker_fd() const { return worker_ ? worker_->fd() : -1; }
  [[nodiscard]] Deadline next_check() const;
  void end_worker();

  [[nodiscard]] const std::optional<VerdictMessage>& verdict() const { return verdict_; }
  [[nodiscard]] const std::optional<Final>& final_word() const { return final_; }
  [[nodiscard]] const std::optional<Acted>& acted() const { return acted_; }
  // What this node knows by itself, where no verdict comes.
  [[nodiscard]] const std::optional<Failed>& own_failure() const { return failure_; }
  [[nodiscard]] const std::string& stage() const { return stage_; }
  [[nodiscard]] const std::optional<engine::Description>& description() const { return description_; }
  [[nodiscard]] const std::string& protocol_error() const { return protocol_error_; }

 private:
  void start_worker(bool alone, std::optional<engine::Place> place);
  void take(const worker::Event& event);
  void fail(Failed failed);

  ParticipantSettings settings_;
  Hooks hooks_;
  std::optional<worker::WorkerProcess> worker_;
  std::uint32_t id_ = 0;  // of the command under way
  bool measuring_alone_ = false;
  std::optional<engine::Place> place_;  // to be taken before it is ready: among pairs, without a ring
  Deadline ready_by_ = Deadline::in(std::chrono::seconds(0));  // the worker has opened and measured alone
  std::string address_;
  std::optional<engine::Description> description_;
  std::string stage_ = "waiting for peers";
  std::optional<Failed> failure_;
  std::optional<VerdictMessage> verdict_;
  std::optional<Acted> acted_;
  std::optional<Final> final_;
  std::string protocol_error_;
};

}  // namespace nccl_check::job
