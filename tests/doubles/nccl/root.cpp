#include "tests/doubles/nccl/root.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "tests/doubles/nccl/address.hpp"
#include "tests/doubles/nccl/collective.hpp"

namespace nccl_check::doubles {
namespace {

// The beginning of a unique id.
struct Id {
  std::array<char, 16> magic{};
  std::array<unsigned char, 16> random{};
  sockaddr_in address{};
};
constexpr std::array<char, 16> magic{"SIMULATED NCCL1"};
static_assert(sizeof(Id) <= NCCL_UNIQUE_ID_BYTES);

struct Peer {
  int fd = -1;
  std::vector<int> ranks;
  std::size_t left = 0;  // of them, in good order
  bool own = false;      // this very process, most likely
};

struct Pending {
  Header header;
  std::vector<Part> parts;
};

class Root {
 public:
  explicit Root(int listener) : listener_(listener) {}

  void run() {
    while (listener_ != -1 || !peers_.empty()) {
      std::vector<pollfd> fds;
      for (const Peer& peer : peers_) fds.push_back({peer.fd, POLLIN, 0});
      if (listener_ != -1) fds.push_back({listener_, POLLIN, 0});
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;
      // Backwards, since peers may go.
      for (std::size_t i = fds.size(); i-- > 0;) {
        if (fds[i].revents == 0) continue;
        if (fds[i].fd == listener_)
          accept_one();
        else
          read_from(fds[i].fd);
      }
    }
  }

 private:
  void accept_one() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd == -1) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    peers_.push_back({fd, {}, 0, false});
  }

  void read_from(int fd) {
    Header header;
    Bytes payload;
    if (!receive_message(fd, header, payload)) return drop(fd);
    const auto peer = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.fd == fd; });
    switch (header.message) {
      case Message::join:
        return join(*peer, payload);
      case Message::part:
        return part(*peer, header, std::move(payload));
      case Message::letter:
        return forward(header, payload);
      case Message::leave:
        ++peer->left;
        return;
      default:
        return drop(fd);
    }
  }

  void join(Peer& peer, const Bytes& payload) {
    Member member;
    if (payload.size() != sizeof member) return;
    std::memcpy(&member, payload.data(), sizeof member);
    peer.ranks.push_back(member.rank);
    std::sort(peer.ranks.begin(), peer.ranks.end());
    members_[member.rank] = member;
    peer.own = member.process == ::getpid();
    if (members_.size() < static_cast<std::size_t>(member.ranks)) return;
    std::vector<Member> table;
    for (const auto& [rank, one] : members_) table.push_back(one);
    Header header{.message = Message::ready};
    header.bytes = table.size() * sizeof(Member);
    for (const Peer& one : peers_) send_message(one.fd, header, table.data());
    ::close(listener_);
    listener_ = -1;
  }

  void part(const Peer& peer, const Header& header, Bytes payload) {
    Pending& pending = pending_[header.number];
    if (pending.parts.empty()) pending.header = header;
    pending.parts.push_back({peer.ranks, std::move(payload)});
    pending.header.start = std::max(pending.header.start, header.start);
    pending.header.inside = std::min(pending.header.inside, header.inside);
    pending.header.outside = std::min(pending.header.outside, header.outside);
    std::size_t ranks = 0;
    for (const Part& one : pending.parts) ranks += one.ranks.size();
    if (ranks < members_.size()) return;  // for good, where a process is gone
    answer(pending);
    pending_.erase(header.number);
  }

  void answer(Pending& pending) {
    Header header = pending.header;
    const Collective what{static_cast<Operation>(header.operation), header.count,
                          static_cast<ncclDataType_t>(header.type),
                          static_cast<ncclRedOp_t>(header.reduction), header.from};
    const Bytes whole = joined(what, std::move(pending.parts), static_cast<int>(members_.size()));
    header.message = Message::result;
    // Its own process last: it may end as soon as it has what it needs.
    std::stable_partition(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.own; });
    for (const Peer& peer : peers_) {
      const Bytes share = share_of(what, whole, peer.ranks);
      header.bytes = share.size();
      send_message(peer.fd, header, share.data());
    }
  }

  void forward(const Header& header, const Bytes& payload) {
    for (const Peer& peer : peers_) {
      if (std::find(peer.ranks.begin(), peer.ranks.end(), header.to) == peer.ranks.end()) continue;
      send_message(peer.fd, header, payload.data());
    }
  }

  void drop(int fd) {
    const auto peer = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.fd == fd; });
    const bool orderly = !peer->ranks.empty() && peer->left >= peer->ranks.size();
    ::close(fd);
    peers_.erase(peer);
    if (orderly) return;
    for (const Peer& other : peers_) send_message(other.fd, {.message = Message::lost}, nullptr);
    if (listener_ != -1 && !members_.empty()) {  // it can't become complete any more
      ::close(listener_);
      listener_ = -1;
    }
  }

  int listener_;
  std::vector<Peer> peers_;
  std::map<int, Member> members_;
  std::map<std::uint64_t, Pending> pending_;
};

const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

bool start_root(ncclUniqueId& unique) {
  Id id{.magic = magic};
  if (::getrandom(id.random.data(), id.random.size(), 0) != static_cast<ssize_t>(id.random.size()))
    return false;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  id.address.sin_family = AF_INET;
  id.address.sin_addr = chosen_interface().address;
  socklen_t length = sizeof id.address;
  if (listener == -1 || ::bind(listener, generic(id.address), length) != 0 || ::listen(listener, 128) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&id.address), &length) != 0) {
    if (listener != -1) ::close(listener);
    return false;
  }
  std::thread([listener] { Root(listener).run(); }).detach();
  std::memset(unique.internal, 0, sizeof unique.internal);
  std::memcpy(unique.internal, &id, sizeof id);
  return true;
}

int connect_to_root(const ncclUniqueId& unique) {
  Id id;
  std::memcpy(&id, unique.internal, sizeof id);
  if (id.magic != magic) return -1;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd == -1) return -1;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, generic(id.address), sizeof id.address) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace nccl_check::doubles
