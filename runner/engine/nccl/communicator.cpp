#include "engine/nccl/communicator.hpp"

#include <fmt/format.h>

#include <thread>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;
constexpr std::chrono::microseconds between_polls{100};

}  // namespace

Trouble Communicator::connect(const ncclUniqueId& id, const Patience& patience) {
  const std::string doing = "NCCL's initialisation";
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto result = api_.CommInitRankConfig(&comm_, ranks_, id, rank_, &config);
  return settle(result, patience, doing);
}

Trouble Communicator::call(const char* doing, const Patience& patience,
                           const std::function<ncclResult_t(ncclComm_t)>& operation) {
  if (device_.trouble()) return device_.trouble();
  auto trouble = settle(operation(comm_), patience, doing);
  if (trouble) device_.fail(*trouble);
  return trouble;
}

// An error of NCCL's own leaves the stream waiting for good.
Trouble Communicator::finish(const Patience& patience, const std::string& doing) {
  device_.finish(patience, doing, [&]() -> Trouble {
    ncclResult_t state = ncclSuccess;
    const auto asked = api_.CommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) return failure(asked, doing);
    if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
    return failure(state, doing);
  });
  return device_.trouble();
}

Trouble Communicator::settle(ncclResult_t result, const Patience& patience, const std::string& doing) {
  while (result == ncclInProgress) {
    if (patience.over()) return hung(doing, device_.where());
    std::this_thread::sleep_for(between_polls);
    ncclResult_t state = ncclInProgress;
    const auto asked = api_.CommGetAsyncError(comm_, &state);
    result = asked == ncclSuccess ? state : asked;
  }
  if (result == ncclSuccess) return std::nullopt;
  return failure(result, doing);
}

Failure Communicator::failure(ncclResult_t result, const std::string& doing) const {
  const char* text = api_.GetErrorString(result);
  const char* last = api_.GetLastError(comm_);
  return nccl_failure(result, text == nullptr ? "" : text, last == nullptr ? "" : last, whole_node_, doing,
                      device_.where());
}

// Over the network a failure shows on innocent nodes too: nobody is broken for that. On one node the GPU's
// own errors are its own.
Failure nccl_failure(int result, const std::string& result_text, const std::string& last, bool whole_node,
                     const std::string& doing, const std::string& where) {
  const bool cuda = result == ncclUnhandledCudaError;
  std::string what = fmt::format("{} failed: NCCL says {} ({})", doing,
                                 result_text.empty() ? "an unknown error" : printable(result_text), result);
  if (!trim(last).empty()) what += ": " + printable(trim(last), 300);
  return {cuda && whole_node ? Class::broken : Class::untested,
          {what, where, cuda ? "see the kernel's log for Xid lines" : ""}};
}

}  // namespace nccl_check::engine::nccl
