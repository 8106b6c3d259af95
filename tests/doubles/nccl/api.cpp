// NCCL's interface: communicators.
#include <nccl.h>

#include <cstring>
#include <set>
#include <thread>

#include "tests/doubles/cuda/bridge.hpp"
#include "tests/doubles/description/description.hpp"
#include "tests/doubles/nccl/enqueue.hpp"
#include "tests/doubles/nccl/root.hpp"

using namespace nccl_check::doubles;

namespace {

constexpr unsigned config_magic = 0xcafebeefU;

// Texts that callers keep pointers to.
const char* kept(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return all.insert(text).first->c_str();
}

bool is_blocking(const ncclConfig_t* config) {
  return config == nullptr || config->blocking != 0;
}

ncclResult_t read_only(ncclComm_t handle, int* value, int ncclComm::*member) {
  const auto comm = find_communicator(handle);
  if (comm == nullptr || value == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  *value = (*comm).*member;
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (description() == nullptr) return ncclSystemError;
  if (version == nullptr) return ncclInvalidArgument;
  *version = description()->host.nccl;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (description() == nullptr) return ncclSystemError;
  if (id == nullptr) return ncclInvalidArgument;
  return start_root(*id) ? ncclSuccess : refuse(ncclSystemError, "no socket to listen on");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (description() == nullptr) return ncclSystemError;
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument,
                  "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(ranks));
  }
  if (config != nullptr && config->magic != config_magic) {
    return refuse(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  }
  const auto current = bridge::current();
  if (current.device == -1)
    return refuse(ncclUnhandledCudaError, "Cuda failure 201 'invalid device context'");
  const auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  comm->ranks = ranks;
  comm->device = current.device;
  comm->gpu = current.gpu;
  comm->blocking = is_blocking(config);
  comm->id = id;
  comm->link = Link::of(id);
  add_communicator(comm);
  *handle = comm.get();
  std::thread([comm] { comm->make(); }).detach();
  return comm->blocking ? wait_made_or_defer(comm) : ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const auto comm = find_communicator(handle);
  if (comm == nullptr || error == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  *error = comm->state();
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t handle) {
  const auto comm = find_communicator(handle);
  const std::string text = comm == nullptr ? "" : comm->last_error();
  return kept(text.empty() ? last_refusal() : text);
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return read_only(comm, count, &ncclComm::ranks);
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return read_only(comm, device, &ncclComm::device);
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return read_only(comm, rank, &ncclComm::rank);
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const auto comm = take_communicator(handle);
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  comm->abort();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const auto comm = find_communicator(handle);
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  if (comm->blocking || comm->all_finished()) {
    comm->wait_finished();
    return comm->state();
  }
  comm->set_state(ncclInProgress);
  std::thread([comm] {
    comm->wait_finished();
    comm->set_state(ncclSuccess);
  }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const auto comm = take_communicator(handle);
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  comm->destroy();
  return ncclSuccess;
}
