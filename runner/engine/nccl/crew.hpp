#pragma once
// Threads that call drivers, and the engine's own thread that waits for them: a call that never returns holds
// up a thread of the crew, never the engine. Nothing joins such a thread; the process's end takes it along.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace nccl_check::engine::nccl {

using Trouble = std::optional<Failure>;  // nothing: all went well

// How long a thread of the crew may go on waiting.
class Patience {
 public:
  Patience(Deadline deadline, std::shared_ptr<std::atomic<bool>> stop)
      : deadline_(deadline), stop_(std::move(stop)) {}
  [[nodiscard]] bool over() const { return stop_->load() || deadline_.passed(); }
  [[nodiscard]] Deadline deadline() const { return deadline_; }

 private:
  Deadline deadline_;
  std::shared_ptr<std::atomic<bool>> stop_;
};

class Crew {
 public:
  explicit Crew(Heartbeat heartbeat) : heartbeat_(std::move(heartbeat)) {}
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Threads are numbered as the caller likes and made when first needed; each does its work in order.
  void post(int thread, std::function<void()> work);
  void beat() const;
  // Whether no thread is inside a piece of work, by `deadline` at last: a thread needs a moment after its
  // last.
  [[nodiscard]] bool idle(Deadline deadline) const;

 private:
  struct Worker;
  Heartbeat heartbeat_;
  std::map<int, std::shared_ptr<Worker>> workers_;
};

// Work of one stage for several threads, each piece for `who` ("GPU 1 (0000:3b:00.0)").
class Batch {
 public:
  using Body = std::function<Trouble(const Patience&)>;

  Batch(Crew& crew, std::string stage, Deadline deadline);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void add(int thread, std::string who, Body body);
  // Until all is done, or one piece failed (the others are told to stop, and get a moment), or the deadline
  // passed: hung, naming the stage and who was not done. Gives the signs of life.
  Trouble wait();

 private:
  struct Shared;
  Crew& crew_;
  std::shared_ptr<Shared> shared_;
};

Failure hung(const std::string& stage, const std::string& who);
inline Failure untested(std::string what, std::string where = "", std::string remedy = "") {
  return {verdict::Class::untested, {std::move(what), std::move(where), std::move(remedy)}};
}

}  // namespace nccl_check::engine::nccl
