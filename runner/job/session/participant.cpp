#include "job/session/participant.hpp"

#include <fmt/format.h>

namespace nccl_check::job {

Participant::Participant(ParticipantSettings settings, Hooks hooks)
    : settings_(std::move(settings)), hooks_(std::move(hooks)) {}

void Participant::begin() {
  if (settings_.join.participation == Participation::measure)
    start_worker(settings_.alone.has_value(), std::nullopt);
}

void Participant::start_worker(bool alone, std::optional<engine::Place> place) {
  end_worker();
  failure_.reset();
  address_.clear();
  measuring_alone_ = alone && settings_.alone;
  place_ = std::move(place);
  stage_ = "open";
  if (!settings_.worker) return fail({id_, verdict::Class::untested, "start", settings_.join.why, true});
  auto worker = worker::WorkerProcess::start(*settings_.worker);
  if (!worker) return fail({id_, verdict::Class::untested, "start", worker.error().text(), true});
  worker_.emplace(std::move(*worker));
  // What hangs here is found here, while the coordinator still waits for this node (its opening_share).
  ready_by_ = Deadline::in(settings_.deadline.left() * 6 / 10);
  worker_->open(settings_.engine, ready_by_.left());
}

void Participant::end_worker() {
  if (worker_) worker_->end();
  worker_.reset();
}

void Participant::fail(Failed failed) {
  failure_ = failed;
  hooks_.send(MessageType::failed, encode(failed));
  end_worker();
}

Deadline Participant::next_check() const {
  return worker_ ? worker_->next_check() : Deadline::in(std::chrono::hours(1));
}

void Participant::advance() {
  if (!worker_) return;
  for (const auto& event : worker_->advance()) {
    take(event);
    if (!worker_) return;
  }
}

void Participant::take(const worker::Event& event) {
  if (const auto* opened = std::get_if<worker::Opened>(&event)) {
    description_ = opened->opened.description;
    address_ = opened->opened.address;
    if (measuring_alone_) {
      stage_ = verdict::name(settings_.alone->operation);
      return worker_->measure_alone(*settings_.alone, ready_by_.left());
    }
    if (place_) return worker_->connect(*place_, ready_by_.left());
    stage_ = "waiting for peers";
    hooks_.send(MessageType::ready, encode(Ready{*description_, address_, {}}));
  } else if (const auto* alone = std::get_if<worker::MeasuredAlone>(&event)) {
    stage_ = "waiting for peers";
    measuring_alone_ = false;
    hooks_.send(MessageType::ready, encode(Ready{*description_, address_, alone->figures}));
  } else if (const auto* measured = std::get_if<worker::Measured>(&event)) {
    stage_ = "waiting for peers";
    hooks_.send(MessageType::measured, encode(Answer{id_, measured->samples, {}}));
  } else if (const auto* connected = std::get_if<worker::Connected>(&event)) {
    stage_ = "waiting for peers";
    if (place_) {
      place_.reset();
      return hooks_.send(MessageType::ready, encode(Ready{*description_, address_, {}}));
    }
    hooks_.send(MessageType::connected, encode(Answer{id_, {}, connected->connected}));
  } else if (const auto* failed = std::get_if<worker::Failed>(&event)) {
    fail({id_, failed->cls, failed->stage, failed->text, failed->local});
  }
}

void Participant::message(MessageType type, std::string_view payload) {
  const auto unfit = [&](const Error& error) { protocol_error_ = error.text(); };
  const auto without_worker = [&](std::uint32_t id) {
    if (worker_) return false;
    // A failure that was told already need not be told again; only the coordinator's newer command has to get
    // an answer.
    if (failure_) {
      failure_->id = id;
      hooks_.send(MessageType::failed, encode(*failure_));
    } else {
      fail({id, verdict::Class::untested, "start", "it has no worker", true});
    }
    return true;
  };
  switch (type) {
    case MessageType::start:
      return start_worker(settings_.alone.has_value(), std::nullopt);
    case MessageType::restart: {
      auto restart = decode<Restart>(payload);
      if (!restart) return unfit(restart.error());
      id_ = restart->id;
      std::optional<engine::Place> place;
      if (restart->rank >= 0) place = engine::Place{restart->rank, restart->ranks, "", "", ""};
      return start_worker(restart->alone, place);
    }
    case MessageType::connect: {
      auto connect = decode<Connect>(payload);
      if (!connect) return unfit(connect.error());
      id_ = connect->id;
      if (without_worker(id_)) return;
      stage_ = "connect";
      return worker_->connect(connect->place, Milliseconds(connect->limit_ms));
    }
    case MessageType::measure: {
      auto measure = decode<Measure>(payload);
      if (!measure) return unfit(measure.error());
      id_ = measure->id;
      if (without_worker(id_)) return;
      stage_ = verdict::name(measure->task.operation);
      return worker_->measure(measure->task, Milliseconds(measure->limit_ms));
    }
    case MessageType::verdict: {
      auto verdict = decode<VerdictMessage>(payload);
      if (!verdict) return unfit(verdict.error());
      // Before anything is done about it: the worker holds memory and CPUs that the job is to have.
      end_worker();
      stage_ = "acting";
      verdict_ = std::move(*verdict);
      if (verdict_->job.cls == verdict::Class::pass) return;
      acted_ = hooks_.decide(*verdict_);
      return hooks_.send(MessageType::acted, encode(*acted_));
    }
    case MessageType::fail_job: {
      auto order = decode<FailJob>(payload);
      if (!order) return unfit(order.error());
      Acted told;
      told.text = hooks_.fail_job(*order);
      return hooks_.send(MessageType::acted, encode(told));
    }
    case MessageType::final: {
      auto word = decode<Final>(payload);
      if (!word) return unfit(word.error());
      final_ = std::move(*word);
      return;
    }
    default:
      protocol_error_ = fmt::format("a message of type {} that no coordinator says", static_cast<int>(type));
  }
}

}  // namespace nccl_check::job
