#pragma once
// How to wait for completions without burning a CPU that the peers on this machine, or the kernel's network,
// need.
#include <vector>

#include "base/deadline.hpp"
#include "base/result.hpp"
#include "engine/fabric/rail.hpp"

namespace nccl_check::engine::fabric {

class Waiter {
 public:
  // Until something may have completed, at most `limit`. What completed meanwhile may be in `out` already.
  Status wait(std::vector<Rail>& rails, Clock::duration limit, std::vector<Completion>& out);
  void moved();  // something has completed: the next waits are short again

 private:
  Result<bool> block(std::vector<Rail>& rails, Clock::duration limit, std::vector<Completion>& out);

  int fruitless_ = 0;  // waits that ended at once with nothing, in a row
  Clock::duration nap_{};
};

}  // namespace nccl_check::engine::fabric
