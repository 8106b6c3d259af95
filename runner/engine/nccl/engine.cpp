// make_nccl_engine(): what the worker calls, one call a stage.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "engine/nccl/collective.hpp"
#include "engine/nccl/figures.hpp"
#include "engine/nccl/node.hpp"
#include "engine/nccl/pairs.hpp"

namespace nccl_check::engine {
namespace nccl {
namespace {

using verdict::Operation;

class NcclEngine final : public Engine {
 public:
  explicit NcclEngine(Heartbeat heartbeat) : node_(std::make_unique<Node>(std::move(heartbeat))) {}
  // A thread that is stuck in a driver still works on the node: it is left to the process's end then.
  ~NcclEngine() override {
    if (!node_->crew.idle(Deadline::in(Milliseconds(100)))) static_cast<void>(node_.release());
  }
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;

  Measured<Opened> open(const Settings& settings, Deadline deadline) override;
  Measured<Connected> connect(const Place& place, Deadline deadline) override;
  Measured<Samples> measure(const Task& task, Deadline deadline) override;
  Measured<std::vector<Figure>> measure_alone(const Task& task, Deadline deadline) override;

 private:
  Trouble may_measure(const Task& task) const;
  template <class T>
  T noted(T measured) {
    failed_ = failed_ || !measured.ok();
    return measured;
  }

  std::unique_ptr<Node> node_;
  bool opened_ = false;
  bool failed_ = false;  // after a failure streams and communicators are in no known state
  bool placed_ = false;
  Pairs pairs_;
};

Trouble NcclEngine::may_measure(const Task& task) const {
  if (!opened_) return untested("the engine has not been opened");
  if (failed_) return untested("an earlier task failed in this worker", "", "start a fresh one");
  if (task.iterations < 1 || task.warmups < 0) return untested("a task needs at least one iteration");
  if (task.bytes > node_->settings.most_bytes)
    return untested(fmt::format("{} of {} needs larger buffers than {}", verdict::name(task.operation),
                                format_size(task.bytes), format_size(node_->settings.most_bytes)),
                    "", "measure a smaller size");
  return std::nullopt;
}

Measured<Opened> NcclEngine::open(const Settings& settings, Deadline deadline) {
  if (opened_ || failed_) return untested("the engine was opened before");
  if (auto trouble = node_->open(settings, deadline)) {
    failed_ = true;
    return *trouble;
  }
  opened_ = true;
  return node_->describe();
}

Measured<std::vector<Figure>> NcclEngine::measure_alone(const Task& task, Deadline deadline) {
  if (auto trouble = may_measure(task)) return *trouble;
  if (task.operation != Operation::all_reduce && task.operation != Operation::all_gather)
    return untested(fmt::format("{} is no operation among a node's own GPUs", verdict::name(task.operation)));
  return noted(measure_node(*node_, task, deadline));
}

Measured<Connected> NcclEngine::connect(const Place& place, Deadline deadline) {
  if (!opened_ || failed_) return untested("the engine has not been opened");
  const auto own = static_cast<int>(node_->devices.size());
  if (place.rank < 0 || place.rank + own > place.ranks)
    return untested(
        fmt::format("ranks {} to {} of {} are no place", place.rank, place.rank + own - 1, place.ranks));
  placed_ = true;
  return noted(pairs_.connect(*node_, place, deadline));
}

Measured<Samples> NcclEngine::measure(const Task& task, Deadline deadline) {
  if (auto trouble = may_measure(task)) return *trouble;
  if (!placed_) return untested("the engine has not been connected");
  return noted(pairs_.measure(*node_, task, deadline));
}

}  // namespace
}  // namespace nccl

std::unique_ptr<Engine> make_nccl_engine(Heartbeat heartbeat) {
  return std::make_unique<nccl::NcclEngine>(std::move(heartbeat));
}

}  // namespace nccl_check::engine
