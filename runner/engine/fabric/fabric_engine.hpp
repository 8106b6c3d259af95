#pragma once
// The engine on libfabric and host memory. One rank a node, one endpoint a device.
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/fabric/exchange.hpp"
#include "engine/fabric/memory.hpp"
#include "engine/fabric/pattern.hpp"
#include "engine/fabric/rail.hpp"

namespace nccl_check::engine::fabric {

// For tests: what happens to the result between the last iteration and its verification.
using Tamper = std::function<void(std::span<std::byte>)>;

class FabricEngine final : public Engine {
 public:
  explicit FabricEngine(Heartbeat heartbeat, Tamper tamper = {});
  ~FabricEngine() override;

  Measured<Opened> open(const Settings& settings, Deadline deadline) override;
  Measured<Connected> connect(const Place& place, Deadline deadline) override;
  Measured<Samples> measure(const Task& task, Deadline deadline) override;
  Measured<std::vector<Figure>> measure_alone(const Task& task, Deadline deadline) override;

 private:
  Measured<Peer> reach(const std::string& address, int rank, const char* role);
  Measured<Neighbours> neighbours_for(const Task& task);
  Measured<Samples> run(const Task& task, const Schedule& schedule, const Neighbours& neighbours,
                        Deadline deadline);
  Measured<Nanoseconds> iterate(const Task& task, std::uint64_t iteration, const Schedule& schedule,
                                const Neighbours& neighbours, Deadline deadline);
  // The task's data in memory_: room for it, what is sent, nothing where results will be, and what became of
  // it.
  Status reserve(const Schedule& schedule);
  void fill(const Task& task, const Schedule& schedule);
  void wipe(const Task& task, const Schedule& schedule);
  Wrong verify(const Task& task, const Schedule& schedule);

  Heartbeat heartbeat_;
  Pause pause_;
  Tamper tamper_;
  Settings settings_;
  Memory memory_;
  std::optional<Exchange> exchange_;  // since open(); outlives the rails, since it owns what they write to
  std::vector<Rail> rails_;
  std::string provider_;
  std::map<std::string, Peer> known_;  // by address
  std::optional<Neighbours> ring_;
  int rank_ = 0;
  int ranks_ = 1;
  bool failed_ = false;  // messages of a failed task may still be under way: nothing is measured any more
};

}  // namespace nccl_check::engine::fabric
