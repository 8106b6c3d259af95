#pragma once
// One rank of an NCCL communicator. Never aborted or destroyed: both can hang, and the process's end is
// faster.
#include <functional>
#include <string>

#include "engine/nccl/crew.hpp"
#include "engine/nccl/device.hpp"
#include "engine/nccl/nccl_api.hpp"

namespace nccl_check::engine::nccl {

class Communicator {
 public:
  // `whole_node`: all ranks are this node's, so that what fails is its own fault.
  Communicator(const NcclApi& api, Device& device, int rank, int ranks, bool whole_node)
      : api_(api), device_(device), rank_(rank), ranks_(ranks), whole_node_(whole_node) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Device& device() { return device_; }

  // Makes it, until it is ready. The calling thread must use the device's context, which may be used by
  // another thread at the same time.
  Trouble connect(const ncclUniqueId& id, const Patience& patience);
  // An operation on the device's stream; waits until NCCL has taken it, which takes long only for the first.
  Trouble call(const char* doing, const Patience& patience,
               const std::function<ncclResult_t(ncclComm_t)>& operation);
  // finish() of the device, looking for NCCL's own errors meanwhile.
  Trouble finish(const Patience& patience, const std::string& doing);

 private:
  Trouble settle(ncclResult_t result, const Patience& patience, const std::string& doing);
  Failure failure(ncclResult_t result, const std::string& doing) const;

  const NcclApi& api_;
  Device& device_;
  int rank_, ranks_;
  bool whole_node_;
  ncclComm_t comm_ = nullptr;
};

// An error of NCCL as a failure; `last` is NCCL's own last error text.
Failure nccl_failure(int result, const std::string& result_text, const std::string& last, bool whole_node,
                     const std::string& doing, const std::string& where);

}  // namespace nccl_check::engine::nccl
