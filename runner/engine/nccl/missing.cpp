// make_nccl_engine() of a build without CUDA's or NCCL's headers.
#include "engine/engine.hpp"

namespace nccl_check::engine {
namespace {

Failure missing() {
  return {verdict::Class::untested,
          {"this build has no engine for GPUs: " NCCL_CHECK_MISSING " was not found when it was made", "",
           "build nccl-check with CUDA's and NCCL's headers"}};
}

class Missing final : public Engine {
 public:
  Measured<Opened> open(const Settings&, Deadline) override { return missing(); }
  Measured<Connected> connect(const Place&, Deadline) override { return missing(); }
  Measured<Samples> measure(const Task&, Deadline) override { return missing(); }
  Measured<std::vector<Figure>> measure_alone(const Task&, Deadline) override { return missing(); }
};

}  // namespace

std::unique_ptr<Engine> make_nccl_engine(Heartbeat) {
  return std::make_unique<Missing>();
}

}  // namespace nccl_check::engine
