#include "engine/engine.hpp"

namespace nccl_check::engine {

std::unique_ptr<Engine> make_engine(const std::string& name, Heartbeat heartbeat) {
  if (name == "fabric") return make_fabric_engine(std::move(heartbeat));
  if (name == "nccl") return make_nccl_engine(std::move(heartbeat));
  return nullptr;
}

}  // namespace nccl_check::engine
