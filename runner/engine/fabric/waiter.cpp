#include "engine/fabric/waiter.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <thread>

namespace nccl_check::engine::fabric {
namespace {

using std::chrono::microseconds;

// Providers with manual progress do some of their work only when polled, without a sign on their descriptor.
constexpr Clock::duration longest_manual = Milliseconds(10);
// Naps are for providers that offer nothing to block on: short at first, since a fast network needs an answer
// within microseconds.
constexpr Clock::duration first_nap = microseconds(20);
constexpr Clock::duration longest_nap = Milliseconds(1);
constexpr int fruitless_before_naps = 8;

}  // namespace

void Waiter::moved() {
  fruitless_ = 0;
  nap_ = first_nap;
}

Status Waiter::wait(std::vector<Rail>& rails, Clock::duration limit, std::vector<Completion>& out) {
  for (const auto& rail : rails)
    if (rail.manual_progress()) limit = std::min(limit, longest_manual);
  if (fruitless_ < fruitless_before_naps) {
    const auto start = Clock::now();
    auto blocked = block(rails, limit, out);
    if (!blocked) return blocked.error();
    if (*blocked) {
      // Some providers' descriptors (libfabric 1.17's "net") stay readable: then a wait is none.
      fruitless_ = Clock::now() - start < first_nap ? fruitless_ + 1 : 0;
      return success();
    }
  }
  std::this_thread::sleep_for(std::min(std::max(nap_, first_nap), limit));
  nap_ = std::min(nap_ * 2, longest_nap);
  return success();
}

// False: it can't be done with these rails.
Result<bool> Waiter::block(std::vector<Rail>& rails, Clock::duration limit, std::vector<Completion>& out) {
  if (rails.size() == 1) return rails[0].poll(out, std::chrono::ceil<Milliseconds>(limit));
  std::array<pollfd, most_rails> fds{};
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if (rails[i].wait_fd() < 0) return false;
    fds[i] = {rails[i].wait_fd(), POLLIN, 0};
  }
  for (auto& rail : rails)
    if (!rail.may_block()) return rail.wait_fd() >= 0;  // there is something to do already
  const auto ns = std::chrono::duration_cast<Nanoseconds>(limit).count();
  const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
  (void)ppoll(fds.data(), rails.size(), &timeout, nullptr);  // an interruption only makes the wait shorter
  return true;
}

}  // namespace nccl_check::engine::fabric
