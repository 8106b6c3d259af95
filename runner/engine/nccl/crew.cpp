#include "engine/nccl/crew.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <thread>

#include "base/text.hpp"
#include "engine/nccl/stages.hpp"

namespace nccl_check::engine::nccl {

struct Crew::Worker {
  std::mutex mutex;
  std::condition_variable bell;
  std::deque<std::function<void()>> queue;
  bool busy = false;
  bool over = false;

  static void run(const std::shared_ptr<Worker>& self) {
    std::unique_lock lock(self->mutex);
    for (;;) {
      self->bell.wait(lock, [&] { return self->over || !self->queue.empty(); });
      if (self->over) return;
      auto work = std::move(self->queue.front());
      self->queue.pop_front();
      self->busy = true;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      self->busy = false;
      self->bell.notify_all();
    }
  }
};

Crew::~Crew() {
  for (auto& [number, worker] : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->over = true;
    worker->bell.notify_all();
  }
}

void Crew::post(int thread, std::function<void()> work) {
  auto& worker = workers_[thread];
  if (!worker) {
    worker = std::make_shared<Worker>();
    std::thread([own = worker] { Worker::run(own); }).detach();
  }
  const std::lock_guard lock(worker->mutex);
  worker->queue.push_back(std::move(work));
  worker->bell.notify_all();
}

void Crew::beat() const {
  if (heartbeat_) heartbeat_();
}

bool Crew::idle(Deadline deadline) const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    Worker& worker = *entry.second;
    std::unique_lock lock(worker.mutex);
    return worker.bell.wait_until(lock, deadline.at(), [&] { return !worker.busy && worker.queue.empty(); });
  });
}

struct Batch::Shared {
  explicit Shared(std::string name, Deadline until)
      : stage(std::move(name)), deadline(until), stop(std::make_shared<std::atomic<bool>>(false)) {}

  std::string stage;
  Deadline deadline;
  std::shared_ptr<std::atomic<bool>> stop;
  std::mutex mutex;
  std::condition_variable bell;
  std::vector<std::string> open;  // who is not done
  std::vector<std::string> late;  // who gave up waiting
  Trouble first;                  // the failure that came first

  void done(const std::string& who, Trouble trouble) {
    const std::lock_guard lock(mutex);
    open.erase(std::find(open.begin(), open.end(), who));
    if (trouble && trouble->cls == verdict::Class::hung) late.push_back(who);
    // Who gave up waiting did so for a reason: what another one found.
    if (trouble && (!first || first->cls == verdict::Class::hung)) first = std::move(trouble);
    bell.notify_all();
  }
};

Batch::Batch(Crew& crew, std::string stage, Deadline deadline)
    : crew_(crew), shared_(std::make_shared<Shared>(std::move(stage), deadline)) {}

Batch::~Batch() {
  shared_->stop->store(true);
}

void Batch::add(int thread, std::string who, Body body) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.push_back(who);
  }
  crew_.post(thread, [shared = shared_, who = std::move(who), body = std::move(body)] {
    Trouble trouble;
    try {
      const Stage stage(shared->stage + ", " + who);
      trouble = body(Patience(shared->deadline, shared->stop));
    } catch (const std::exception& e) {
      trouble = untested(e.what(), who);
    }
    shared->done(who, std::move(trouble));
  });
}

Trouble Batch::wait() {
  constexpr Milliseconds between_beats{50}, moment{200};
  std::unique_lock lock(shared_->mutex);
  std::optional<Deadline> stopping;
  while (!shared_->open.empty() && !shared_->deadline.passed() && !(stopping && stopping->passed())) {
    shared_->bell.wait_for(lock, std::min<Clock::duration>(between_beats, shared_->deadline.left()));
    lock.unlock();
    crew_.beat();
    lock.lock();
    if (!shared_->first || stopping) continue;
    shared_->stop->store(true);
    stopping = Deadline::in(moment);
  }
  shared_->stop->store(true);
  if (shared_->first && shared_->first->cls != verdict::Class::hung) return shared_->first;
  auto late = shared_->late;
  late.insert(late.end(), shared_->open.begin(), shared_->open.end());
  if (late.empty()) return std::nullopt;
  std::sort(late.begin(), late.end());
  return hung(shared_->stage, join(late, ", "));
}

Failure hung(const std::string& stage, const std::string& who) {
  return {verdict::Class::hung, {fmt::format("the deadline passed in {}", stage), who, ""}};
}

}  // namespace nccl_check::engine::nccl
