#include "tests/doubles/nccl/link.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/doubles/nccl/root.hpp"

namespace nccl_check::doubles {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Link>> links;
};

Registry& registry() {
  static auto& all = *new Registry;
  return all;
}

}  // namespace

std::shared_ptr<Link> Link::of(const ncclUniqueId& id) {
  const std::string key(id.internal, sizeof id.internal);
  const std::lock_guard lock(registry().mutex);
  auto& known = registry().links[key];
  auto link = known.lock();
  if (link == nullptr) known = link = std::make_shared<Link>(key);
  return link;
}

Link::~Link() {
  if (fd_ != -1) ::close(fd_);
}

bool Link::connect(const ncclUniqueId& id) {
  const std::lock_guard lock(connecting_);
  if (fd_ != -1) return true;
  fd_ = connect_to_root(id);
  if (fd_ == -1) return false;
  std::thread([self = shared_from_this()] { self->read(); }).detach();
  return true;
}

bool Link::join(const ncclUniqueId& id, const Member& member) {
  if (!connect(id)) return false;
  {
    const std::lock_guard lock(mutex_);
    local_.insert(member.rank);
  }
  send({.message = Message::join, .bytes = sizeof member}, &member);
  return true;
}

void Link::send(const Header& header, const void* payload) {
  const std::lock_guard lock(writing_);
  send_message(fd_, header, payload);  // a lost connection shows on the reading side
}

void Link::read() {
  Header header;
  Bytes payload;
  while (receive_message(fd_, header, payload)) handle(header, std::move(payload));
  const std::lock_guard lock(mutex_);
  state_ = State::lost;
  changed_.notify_all();
}

void Link::handle(const Header& header, Bytes payload) {
  const std::lock_guard lock(mutex_);
  if (header.message == Message::ready) {
    members_.resize(payload.size() / sizeof(Member));
    std::memcpy(members_.data(), payload.data(), members_.size() * sizeof(Member));
    if (state_ == State::joining) state_ = State::ready;
  } else if (header.message == Message::result) {
    if (const auto found = slots_.find(header.number); found != slots_.end()) {
      Slot& slot = *found->second;
      slot.pace = {header.start, header.inside, header.outside};
      slot.share = std::move(payload);
      slot.done = true;
    }
  } else if (header.message == Message::letter) {
    letters_[{header.operation, header.from, header.to, header.number}] = {header, std::move(payload)};
  } else if (header.message == Message::lost) {
    state_ = State::lost;
  }
  changed_.notify_all();
}

bool Link::stuck() {
  const std::lock_guard lock(mutex_);
  return stuck_;
}

template <class Done>
void Link::wait_for(std::unique_lock<std::mutex>& lock, Done done) {
  changed_.wait(lock, [&] {
    const bool is_done = done();
    if (!is_done && state_ == State::lost) stuck_ = true;
    return is_done;
  });
}

Link::State Link::wait_ready(const Ended& ended) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::joining || ended; });
  return state_;
}

void Link::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Link::leave(int rank, bool orderly) {
  if (orderly) send({.message = Message::leave, .from = rank}, nullptr);
  const std::lock_guard lock(mutex_);
  if (++left_ < local_.size()) return;
  ::shutdown(fd_, SHUT_RDWR);
  const std::lock_guard registered(registry().mutex);
  registry().links.erase(key_);
}

void Link::wait_for_end(const Ended& ended) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended.load(); });
}

void Link::combine(const Collective& what, std::uint64_t number, Slot& slot) {
  Part part = part_of(what, slot.arrived, static_cast<int>(members_.size()));
  if (!alone()) {
    {
      const std::lock_guard lock(mutex_);
      slot.reading = false;
      changed_.notify_all();
    }
    const Header header{.message = Message::part,
                        .operation = static_cast<std::uint32_t>(what.operation),
                        .from = what.root,
                        .type = static_cast<std::uint32_t>(what.type),
                        .reduction = static_cast<std::uint32_t>(what.reduction),
                        .number = number,
                        .count = what.count,
                        .start = slot.pace.start,
                        .inside = slot.pace.inside,
                        .outside = slot.pace.outside,
                        .bytes = part.data.size()};
    send(header, part.data.data());
    return;
  }
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  Bytes whole = joined(what, std::move(parts), static_cast<int>(members_.size()));
  const std::lock_guard lock(mutex_);
  slot.share = std::move(whole);
  slot.reading = false;
  slot.done = true;
  changed_.notify_all();
}

bool Link::collective(const Collective& what, std::uint64_t number, const Buffers& buffers, Pace& pace,
                      const Ended& ended) {
  std::unique_lock lock(mutex_);
  auto& known = slots_[number];
  if (known == nullptr) known = std::make_shared<Slot>();
  const auto slot = known;
  if (slot->arrived.empty()) slot->pace = pace;
  slot->arrived.push_back(buffers);
  slot->pace = {std::max(slot->pace.start, pace.start), std::min(slot->pace.inside, pace.inside),
                std::min(slot->pace.outside, pace.outside)};
  if (slot->arrived.size() == local_.size()) {
    slot->reading = true;
    lock.unlock();
    combine(what, number, *slot);
    lock.lock();
  }
  wait_for(lock, [&] { return slot->done || (ended && !slot->reading); });
  if (!slot->done) return false;
  pace = slot->pace;
  if (++slot->taken == local_.size()) slots_.erase(number);
  const std::vector<int> ranks = local();
  lock.unlock();
  deliver(what, slot->share, ranks, buffers);
  return true;
}

void Link::post(const Header& header, Bytes payload) {
  bool here = false;
  {
    const std::lock_guard lock(mutex_);
    here = local_.count(header.to) > 0;
  }
  if (here) return handle(header, std::move(payload));
  send(header, payload.data());
}

bool Link::fetch(Letter kind, int from, int to, std::uint64_t number, Header& header, Bytes& payload,
                 const Ended& ended) {
  const Address address{static_cast<std::uint32_t>(kind), from, to, number};
  std::unique_lock lock(mutex_);
  wait_for(lock, [&] { return letters_.count(address) > 0 || ended; });
  const auto found = letters_.find(address);
  if (found == letters_.end()) return false;
  header = found->second.first;
  payload = std::move(found->second.second);
  letters_.erase(found);
  return true;
}

}  // namespace nccl_check::doubles
