#include "tests/doubles/nccl/communicator.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/nccl/log.hpp"

using namespace nccl_check::doubles;

namespace {

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> alive;
  std::string refusal;
};

Registry& registry() {
  static auto& all = *new Registry;
  return all;
}

Member member_of(const ncclComm& comm) {
  Member member{comm.rank, comm.ranks, comm.gpu, ::getpid(), {}};
  const char* given = std::getenv("NCCL_HOSTID");
  const std::string host = given != nullptr ? given : description()->host.name;
  std::strncpy(member.host.data(), host.c_str(), member.host.size() - 1);
  return member;
}

}  // namespace

ncclResult_t ncclComm::state() {
  const std::lock_guard lock(mutex_);
  const bool broken = state_ != ncclSuccess && state_ != ncclInProgress;
  if (!broken && !ended && link->stuck()) {
    state_ = ncclRemoteError;
    error_ = "NET/" + network() + " : connection closed by remote peer (SIMULATED)";
  }
  return state_;
}

std::string ncclComm::last_error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

void ncclComm::set_state(ncclResult_t state) {
  const std::lock_guard lock(mutex_);
  if (state_ == ncclSuccess || state_ == ncclInProgress) state_ = state;  // an error stays
}

void ncclComm::fail(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  state_ = result;
  error_ = text;
  changed_.notify_all();
}

ncclResult_t ncclComm::wait_made() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != ncclInProgress; });
  return state_;
}

void ncclComm::make() {
  std::this_thread::sleep_for(std::chrono::milliseconds(description()->host.init_time));
  crash(Stage::comm_init, {.gpu = gpu});
  if (strikes(Kind::hang, Stage::comm_init, {.gpu = gpu}) != nullptr) return;  // it stays in progress
  if (const Fault* fault = strikes(Kind::nccl_error, Stage::comm_init, {.gpu = gpu})) {
    return fail(static_cast<ncclResult_t>(fault->code), fault->text);
  }
  meet();
}

void ncclComm::meet() {
  log_init(device, rank, ranks);
  if (!link->join(id, member_of(*this))) {
    return fail(ncclRemoteError, "the unique id's root does not answer (SIMULATED)");
  }
  {
    const std::lock_guard lock(mutex_);
    joined_ = true;
  }
  if (ended) return leave(false);  // abort() came too early to see it joined
  if (link->wait_ready(ended) == Link::State::lost)
    return fail(ncclRemoteError, "a rank ended while connecting (SIMULATED)");
  if (ended) return;
  if (!distinct_gpus()) return;
  const std::lock_guard lock(mutex_);
  state_ = ncclSuccess;
  changed_.notify_all();
}

bool ncclComm::distinct_gpus() {
  const auto& members = link->members();
  const Member& own = members[static_cast<std::size_t>(rank)];
  for (const Member& other : members) {
    if (other.rank == rank || other.gpu != own.gpu || other.host != own.host) continue;
    fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " +
                               std::to_string(other.rank) + " both on the same CUDA device");
    return false;
  }
  return true;
}

void ncclComm::abort() {
  ended = true;
  link->wake();
  std::unique_lock lock(mutex_);
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
  lock.unlock();
  leave(false);
}

void ncclComm::destroy() {
  wait_finished();
  ended = true;
  leave(true);
}

void ncclComm::leave(bool orderly) {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(joined_, false)) return;
  }
  link->leave(rank, orderly);
}

void ncclComm::enqueued() {
  const std::lock_guard lock(mutex_);
  ++outstanding_;
}

bool ncclComm::begin() {
  const std::lock_guard lock(mutex_);
  if (ended) return false;
  ++running_;
  return true;
}

void ncclComm::finish(bool began) {
  const std::lock_guard lock(mutex_);
  --outstanding_;
  if (began) --running_;
  changed_.notify_all();
}

bool ncclComm::all_finished() {
  const std::lock_guard lock(mutex_);
  return outstanding_ == 0;
}

void ncclComm::wait_finished() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outstanding_ == 0; });
}

std::uint64_t ncclComm::next_collective() {
  const std::lock_guard lock(mutex_);
  return collectives_++;
}

std::uint64_t ncclComm::next_letter(int peer, bool send) {
  const std::lock_guard lock(mutex_);
  return letters_[{peer, send}]++;
}

bool ncclComm::first_use(int peer) {
  const std::lock_guard lock(mutex_);
  return used_.insert(peer).second;
}

namespace nccl_check::doubles {

std::shared_ptr<ncclComm> find_communicator(ncclComm_t handle) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().alive.find(handle);
  return found == registry().alive.end() ? nullptr : found->second;
}

void add_communicator(const std::shared_ptr<ncclComm>& communicator) {
  const std::lock_guard lock(registry().mutex);
  registry().alive[communicator.get()] = communicator;
}

std::shared_ptr<ncclComm> take_communicator(ncclComm_t handle) {
  auto found = find_communicator(handle);
  const std::lock_guard lock(registry().mutex);
  registry().alive.erase(handle);
  return found;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(registry().mutex);
  registry().refusal = text;
  return result;
}

std::string last_refusal() {
  const std::lock_guard lock(registry().mutex);
  return registry().refusal;
}

}  // namespace nccl_check::doubles
