#include "tests/doubles/nccl/enqueue.hpp"

#include <chrono>
#include <functional>
#include <thread>

#include "tests/doubles/cuda/bridge.hpp"
#include "tests/doubles/description/description.hpp"

namespace nccl_check::doubles {
namespace {

struct Group {
  int depth = 0;
  std::vector<Request> requests;
  std::vector<std::shared_ptr<ncclComm>> made;
};
thread_local Group group;

using Run = std::function<void(double& now)>;
struct Job {
  CUstream stream;
  Run run;
};

// What one communicator does in a group. Sends and receives on a stream go together: they wait for each
// other.
struct Batch {
  std::shared_ptr<ncclComm> comm;
  std::vector<Job> jobs;
  bool first = false;  // there is something to connect
};

Job collective_job(const Request& request) {
  const std::uint64_t number = request.comm->next_collective();
  const auto what = std::get<Collective>(request.what);
  return {request.stream, [comm = request.comm, what, number, buffers = request.buffers](double& now) {
            run_collective(*comm, what, number, buffers, now);
          }};
}

Job transfer_job(const std::shared_ptr<ncclComm>& comm, CUstream stream, std::vector<Numbered> transfers) {
  return {stream,
          [comm, transfers = std::move(transfers)](double& now) { run_transfers(*comm, transfers, now); }};
}

ncclResult_t submit(const Batch& batch) {
  ncclResult_t result = ncclSuccess;
  for (const Job& job : batch.jobs) {
    batch.comm->enqueued();
    const auto& comm = batch.comm;
    const bool taken = bridge::submit(job.stream, comm->gpu, [comm, run = job.run](double& now) {
      const bool began = comm->begin();
      if (began) run(now);
      comm->finish(began);
    });
    if (taken) continue;
    comm->finish(false);
    result = ncclUnhandledCudaError;
    comm->fail(result, "Cuda failure 400 'invalid resource handle'");
  }
  return result;
}

// As NCCL does: connections are made at the first use; a non-blocking communicator does that in the
// background.
ncclResult_t launch(Batch batch) {
  const auto comm = batch.comm;
  if (comm->blocking || !batch.first) return submit(batch);
  comm->set_state(ncclInProgress);
  std::thread([batch = std::move(batch)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(description()->host.connect_time));
    submit(batch);
    batch.comm->set_state(ncclSuccess);
  }).detach();
  return ncclInProgress;
}

std::vector<Batch> batches(const std::vector<Request>& requests) {
  std::vector<Batch> all;
  std::map<std::pair<ncclComm*, CUstream>, std::vector<Numbered>> transfers;
  for (const Request& request : requests) {
    auto found = std::find_if(all.begin(), all.end(), [&](const Batch& b) { return b.comm == request.comm; });
    if (found == all.end()) found = all.insert(all.end(), Batch{request.comm, {}, false});
    if (const auto* transfer = std::get_if<Transfer>(&request.what)) {
      const std::uint64_t number = request.comm->next_letter(transfer->peer, transfer->send);
      transfers[{request.comm.get(), request.stream}].push_back({*transfer, number});
      found->first |= request.comm->first_use(transfer->peer);
    } else {
      found->jobs.push_back(collective_job(request));
      found->first |= request.comm->first_use(-1);
    }
  }
  for (auto& [where, list] : transfers) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&, comm = where.first](const Batch& b) { return b.comm.get() == comm; });
    found->jobs.push_back(transfer_job(found->comm, where.second, std::move(list)));
  }
  return all;
}

}  // namespace

void group_start() {
  ++group.depth;
}
bool in_group() {
  return group.depth > 0;
}

ncclResult_t group_end() {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth > 0) return ncclSuccess;
  const auto requests = std::exchange(group.requests, {});
  const auto made = std::exchange(group.made, {});
  ncclResult_t result = ncclSuccess;
  for (const auto& comm : made) {
    if (const ncclResult_t one = comm->wait_made()) result = one;
  }
  for (Batch& batch : batches(requests)) {
    const ncclResult_t one = launch(std::move(batch));
    if (one != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = one;
  }
  return result;
}

ncclResult_t enqueue(Request request) {
  group_start();
  group.requests.push_back(std::move(request));
  return group_end();
}

ncclResult_t wait_made_or_defer(const std::shared_ptr<ncclComm>& comm) {
  if (!in_group()) return comm->wait_made();
  group.made.push_back(comm);
  return ncclSuccess;
}

}  // namespace nccl_check::doubles
