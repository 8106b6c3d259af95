#pragma once
// A communicator, as one rank sees it.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tests/doubles/nccl/link.hpp"

// NCCL's header only names it; its address is the handle.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
  int rank = 0, ranks = 0;
  int device = 0, gpu = 0;
  bool blocking = true;
  ncclUniqueId id{};
  std::shared_ptr<nccl_check::doubles::Link> link;
  std::atomic<bool> ended{false};  // aborted

  // Its state as ncclCommGetAsyncError gives it, and the last error's text.
  ncclResult_t state();
  std::string last_error();
  void set_state(ncclResult_t state);
  void fail(ncclResult_t result, const std::string& text);
  ncclResult_t wait_made();

  void make();  // in a thread of its own
  void abort();
  void destroy();

  // Work on streams that is not finished, and that is going on right now.
  void enqueued();
  bool begin();  // false: aborted
  void finish(bool began);
  bool all_finished();
  void wait_finished();

  // For a collective's or letter's number. The caller holds nothing.
  std::uint64_t next_collective();
  std::uint64_t next_letter(int peer, bool send);
  // Whether its first operation is still to come (peer -1), or the first with this peer; notes it as done.
  bool first_use(int peer);

 private:
  void meet();
  void leave(bool orderly);
  bool distinct_gpus();

  std::mutex mutex_;
  std::condition_variable changed_;
  ncclResult_t state_ = ncclInProgress;
  bool joined_ = false;
  std::string error_;
  int outstanding_ = 0, running_ = 0;
  std::uint64_t collectives_ = 0;
  std::map<std::pair<int, bool>, std::uint64_t> letters_;
  std::set<int> used_;
};

namespace nccl_check::doubles {

std::shared_ptr<ncclComm> find_communicator(ncclComm_t handle);  // nullptr: no such
void add_communicator(const std::shared_ptr<ncclComm>& communicator);
std::shared_ptr<ncclComm> take_communicator(ncclComm_t handle);

// The text that ncclGetLastError gives where there is no communicator to ask.
ncclResult_t refuse(ncclResult_t result, const std::string& text);
std::string last_refusal();

}  // namespace nccl_check::doubles
