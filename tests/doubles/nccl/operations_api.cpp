// NCCL's interface: operations. cudaStream_t and CUstream are one type.
#include <nccl.h>

#include "tests/doubles/cuda/bridge.hpp"
#include "tests/doubles/nccl/enqueue.hpp"
#include "tests/doubles/nccl/numbers.hpp"

using namespace nccl_check::doubles;

namespace {

// A communicator that can be used now, or why not.
ncclResult_t usable(ncclComm_t handle, std::shared_ptr<ncclComm>& comm) {
  comm = find_communicator(handle);
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  const ncclResult_t state = comm->state();
  if (state != ncclInProgress) return state;
  return refuse(ncclInvalidArgument,
                "Attempt to use communicator before the previous operation returned ncclSuccess");
}

ncclResult_t collective(const Collective& what, const void* from, void* to, ncclComm_t handle,
                        cudaStream_t stream) {
  std::shared_ptr<ncclComm> comm;
  if (const ncclResult_t result = usable(handle, comm)) return result;
  if (bytes_of(what.type) == 0) return refuse(ncclInvalidArgument, "invalid type");
  if (what.reduction < 0 || what.reduction >= ncclNumOps)
    return refuse(ncclInvalidArgument, "invalid reduction operation");
  if (what.root < 0 || what.root >= comm->ranks) return refuse(ncclInvalidArgument, "invalid root");
  const bool is_root = comm->rank == what.root;
  const bool reads = what.operation != Operation::broadcast || is_root;
  const bool writes = what.operation != Operation::reduce || is_root;
  if ((reads && !bridge::usable(from, bytes_from(what, comm->ranks), comm->gpu)) ||
      (writes && !bridge::usable(to, bytes_to(what, comm->ranks), comm->gpu))) {
    return refuse(ncclInvalidArgument, "a buffer is not memory of the communicator's GPU, or too small");
  }
  return enqueue({comm, stream, what, {comm->rank, from, to}});
}

ncclResult_t transfer(bool send, void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, cudaStream_t stream) {
  std::shared_ptr<ncclComm> comm;
  if (const ncclResult_t result = usable(handle, comm)) return result;
  const std::size_t bytes = count * bytes_of(type);
  if (bytes_of(type) == 0 || peer < 0 || peer >= comm->ranks)
    return refuse(ncclInvalidArgument, "invalid type or peer");
  if (!bridge::usable(data, bytes, comm->gpu)) {
    return refuse(ncclInvalidArgument, "a buffer is not memory of the communicator's GPU, or too small");
  }
  return enqueue({comm, stream, Transfer{send, peer, data, bytes}, {}});
}

}  // namespace

ncclResult_t ncclGroupStart() {
  group_start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return group_end();
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return collective({Operation::all_reduce, count, type, reduction, 0}, from, to, comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective({Operation::all_gather, count, type, ncclSum, 0}, from, to, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return collective({Operation::reduce_scatter, count, type, reduction, 0}, from, to, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective({Operation::broadcast, count, type, ncclSum, root}, from, to, comm, stream);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({Operation::reduce, count, type, reduction, root}, from, to, comm, stream);
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(true, const_cast<void*>(data), count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(false, data, count, type, peer, comm, stream);
}
