#include "job/rendezvous/server.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "job/rendezvous/handshake.hpp"
#include "job/rendezvous/socket.hpp"

namespace nccl_check::rendezvous {
namespace {

// Numbers in the epoll; connections count up from the last, and a number is never used twice.
constexpr std::uint64_t listener_id = 0;
constexpr std::uint64_t credentials_id = 1;
constexpr std::uint64_t timer_id = 2;
constexpr std::uint64_t first_connection_id = 3;

constexpr std::size_t read_bytes = 64U << 10U;  // a connection's turn
constexpr int accepts_a_turn = 256;
constexpr Milliseconds tick{100};  // how exactly strangers' time limits are kept

enum class Stage { hello, opening, join, joined };

struct Connection {
  UniqueFd fd;
  SocketAddress from;
  Stage stage = Stage::hello;
  Clock::time_point until;  // of the stage
  int node = -1;            // who it says it is, once its credential is opened
  std::string in;           // the beginning of a frame
  std::string out;          // what the kernel has not taken yet
  std::optional<Channel> channel;
};

struct Node {
  std::uint64_t connection = 0;  // 0: not there
  bool gone = false;
};

// Enough descriptors for all nodes and strangers; fewer strangers where the limit can't be raised so far.
Status reserve_descriptors(std::size_t nodes, std::size_t& strangers) {
  constexpr std::size_t spare = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return success();
  const rlim_t wanted = nodes + strangers + spare;
  if (limit.rlim_cur >= wanted) return success();
  rlimit raised{wanted, std::max(limit.rlim_max, wanted)};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return success();
  raised = {std::min(limit.rlim_max, wanted), limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) raised.rlim_cur = limit.rlim_cur;
  if (raised.rlim_cur < nodes + spare + 16)
    return Error{fmt::format("{} open files are allowed, {} nodes need {}", raised.rlim_cur, nodes,
                             nodes + spare + 16),
                 "", "raise the limit of open files (LimitNOFILE of slurmd, ulimit -n)"};
  strangers = std::min<std::size_t>(strangers, raised.rlim_cur - nodes - spare);
  return success();
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerSetup setup, std::unique_ptr<Credentials> credentials, Poller poller)
      : setup_(std::move(setup)), credentials_(std::move(credentials)), poller_(std::move(poller)) {}

  Status open() {
    strangers_allowed_ = setup_.nodes.size() + setup_.limits.strangers;
    nodes_.resize(setup_.nodes.size());
    for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
      if (!numbers_.emplace(setup_.nodes[i], static_cast<int>(i)).second)
        return Error{fmt::format("the node {} is named twice", printable(setup_.nodes[i])), setup_.job.text(),
                     ""};
    auto reserved = reserve_descriptors(setup_.nodes.size(), strangers_allowed_);
    if (!reserved) return reserved;
    auto bound = bind_first_free();
    if (!bound) return bound;
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!timer_ || !spare_)
      return Error{fmt::format("cannot make a timer: {}", std::strerror(errno)), "", ""};
    auto added = poller_.add(listener_.get(), listener_id, EPOLLIN);
    if (added) added = poller_.add(timer_.get(), timer_id, EPOLLIN);
    // Edges, not levels: when the service ends, its descriptor stays readable for ever.
    if (added && credentials_->fd() >= 0)
      added = poller_.add(credentials_->fd(), credentials_id, EPOLLIN | EPOLLET);
    return added;
  }

  std::vector<Event> poll(Deadline deadline) {
    do {
      turn(events_.empty() ? deadline.poll_ms() : 0);
    } while (events_.empty() && !deadline.passed());
    return std::exchange(events_, {});
  }

  Status send(int node, std::uint16_t type, std::string_view payload) {
    if (node < 0 || static_cast<std::size_t>(node) >= nodes_.size())
      return Error{fmt::format("there is no node number {}", node), setup_.job.text(), ""};
    const auto& name = setup_.nodes[static_cast<std::size_t>(node)];
    if (type >= first_reserved) return Error{fmt::format("{:#06x} is no type for a message", type), name, ""};
    const auto id = nodes_[static_cast<std::size_t>(node)].connection;
    if (id == 0) return Error{"is not there", name, ""};
    auto& connection = connections_.at(id);
    std::string bytes;
    auto sealed = connection.channel->seal(type, payload, bytes);
    if (!sealed) return sealed;
    if (!write(id, connection, std::move(bytes))) return Error{"is not there any more", name, ""};
    return success();
  }

  Status flush(Deadline deadline) {
    while (unsent_ > 0 && !deadline.passed()) turn(deadline.poll_ms());
    if (unsent_ == 0) return success();
    std::vector<std::string> names;
    for (const auto& [id, connection] : connections_)
      if (connection.stage == Stage::joined && !connection.out.empty())
        names.push_back(setup_.nodes[static_cast<std::size_t>(connection.node)]);
    std::sort(names.begin(), names.end());
    return Error{fmt::format("{} did not take all that was sent to them", compress_hostlist(names)),
                 setup_.job.text(), ""};
  }

  Status finish(Deadline deadline) {
    auto flushed = flush(deadline);
    for (auto& [id, connection] : connections_)
      if (connection.stage == Stage::joined) ::shutdown(connection.fd.get(), SHUT_WR);
    const auto here = [&] {
      return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.connection != 0; });
    };
    while (here() && !deadline.passed()) turn(deadline.poll_ms());
    return flushed;
  }

  void close(int node) {
    if (node < 0 || static_cast<std::size_t>(node) >= nodes_.size()) return;
    auto& entry = nodes_[static_cast<std::size_t>(node)];
    if (entry.connection != 0) forget(entry.connection);
    entry.gone = true;
  }

  [[nodiscard]] bool joined(int node) const {
    return node >= 0 && static_cast<std::size_t>(node) < nodes_.size() &&
           nodes_[static_cast<std::size_t>(node)].connection != 0;
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int fd() const { return poller_.fd(); }
  [[nodiscard]] std::size_t refusals() const { return refusals_; }

 private:
  Status bind_first_free() {
    auto ports = ports_of(setup_.job, setup_.ports);
    if (!ports) return ports.error();
    std::vector<std::string> tried;
    for (const auto port : *ports) {
      const int code = listen_on(port, listener_);
      if (code == 0) {
        port_ = port;
        return success();
      }
      tried.push_back(fmt::format("{} ({})", port, std::strerror(code)));
    }
    return Error{fmt::format("no port to listen on: {}", join(tried, ", ")), setup_.job.text(),
                 "widen the range of ports"};
  }

  // One round of the epoll. The nodes come first, newcomers last, so that strangers cannot hold up a check.
  void turn(int wait_ms) {
    std::array<epoll_event, 512> ready{};
    const int count = ::epoll_wait(poller_.fd(), ready.data(), static_cast<int>(ready.size()), wait_ms);
    bool newcomers = false;
    for (int i = 0; i < count; ++i) {
      const auto& event = ready[static_cast<std::size_t>(i)];
      switch (event.data.u64) {
        case listener_id:
          newcomers = true;
          break;
        case credentials_id:
          take_answers();
          break;
        case timer_id:
          end_the_late();
          break;
        default:
          serve(event.data.u64, event.events);
      }
    }
    if (newcomers) accept_some();
  }

  void accept_some() {
    for (int i = 0; i < accepts_a_turn; ++i) {
      const bool full = strangers_.size() >= strangers_allowed_;
      const auto silent = full ? oldest_silent() : std::optional<std::uint64_t>{};
      if (full && !silent) {
        listen_again(false);  // all of them wait for us, not we for them
        return;
      }
      SocketAddress from;
      from.size = sizeof from.storage;
      UniqueFd fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd && (errno == EMFILE || errno == ENFILE)) {
        // Without a descriptor the connection would stay at the door and the epoll would never rest.
        spare_.reset();
        fd.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        fd.reset();
        spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        tell_refusal("somebody", "no more files can be opened on this host");
        return;
      }
      if (!fd) return;  // EAGAIN; or the peer has gone already
      if (silent) end(*silent, "said nothing, and its place was needed");
      auto& same = hosts_[from.host_key()];
      if (same >= setup_.limits.same_host) {
        tell_refusal(from.text(), fmt::format("more than {} connections of its host that have not joined",
                                              setup_.limits.same_host));
        continue;
      }
      tune(fd.get());
      const std::uint64_t id = next_id_++;
      if (!poller_.add(fd.get(), id, EPOLLIN)) continue;
      ++same;
      Connection connection;
      connection.fd = std::move(fd);
      connection.from = from;
      connection.until = Clock::now() + setup_.limits.silent;
      connections_.emplace(id, std::move(connection));
      strangers_.insert(id);
      keep_time(true);
      serve(id, EPOLLIN);  // mostly its hello is there already
    }
  }

  void serve(std::uint64_t id, std::uint32_t events) {
    const auto at = connections_.find(id);
    if (at == connections_.end()) return;  // ended earlier in this round
    Connection& connection = at->second;
    if ((events & EPOLLOUT) != 0 && !write(id, connection, {})) return;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
    const ssize_t n = ::recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      const bool part = !connection.in.empty();
      end(id, n < 0  ? std::string(std::strerror(errno))
              : part ? "closed its connection within a message"
                     : "closed its connection");
      return;
    }
    std::string_view bytes(buffer_.data(), static_cast<std::size_t>(n));
    if (!connection.in.empty()) {
      connection.in += bytes;
      const std::string whole = std::exchange(connection.in, {});
      read_frames(id, whole);
    } else {
      read_frames(id, bytes);
    }
  }

  // All frames of `bytes`; what remains is kept.
  void read_frames(std::uint64_t id, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto at = connections_.find(id);
      if (at == connections_.end()) return;
      Connection& connection = at->second;
      if (connection.stage == Stage::opening)
        return refuse(id, {Refusal::Code::protocol, "it spoke out of turn"});
      auto frame = connection.stage == Stage::hello ? take_plain(bytes) : connection.channel->take(bytes);
      if (!frame) {
        if (connection.stage == Stage::joined) return end(id, frame.error().text());
        return refuse(id, {Refusal::Code::protocol, frame.error().text()});
      }
      if (!*frame) {
        connection.in = bytes;
        return;
      }
      take_frame(id, connection, std::move(**frame));
    }
  }

  void take_frame(std::uint64_t id, Connection& connection, Frame frame) {
    switch (connection.stage) {
      case Stage::hello:
        return take_hello(id, connection, frame);
      case Stage::join:
        return take_join(id, connection, std::move(frame));
      case Stage::joined:
        if (frame.type >= first_reserved)
          return end(id, fmt::format("a message of the unknown type {:#06x}", frame.type));
        events_.push_back({Event::Kind::message, connection.node, frame.type, std::move(frame.payload), ""});
        return;
      case Stage::opening:
        return;
    }
  }

  void take_hello(std::uint64_t id, Connection& connection, const Frame& frame) {
    if (frame.type != number(Reserved::hello))
      return refuse(
          id, {Refusal::Code::protocol, fmt::format("its first message is of type {:#06x}", frame.type)});
    auto credential = parse_hello_text(frame.payload);
    if (!credential) return refuse(id, {Refusal::Code::protocol, credential.error().text()});
    connection.stage = Stage::opening;
    connection.until = Clock::now() + setup_.limits.handshake;
    credentials_->open(id, *credential);
    take_answers();
  }

  void take_answers() {
    for (auto& answer : credentials_->answers()) {
      take_answer(answer);
      wipe(answer.text);
    }
  }

  void take_answer(const Answer& answer) {
    const auto at = connections_.find(answer.ticket);
    if (at == connections_.end()) return;  // it did not wait
    Connection& connection = at->second;
    auto judged = judge(answer, setup_.job, port_, setup_.accepted);
    if (auto* refused = std::get_if<Refused>(&judged)) {
      if (refused->from) connection.channel.emplace(refused->from->secret, Direction::to_node);
      return refuse(answer.ticket, refused->refusal);
    }
    const auto& hello = std::get<Hello>(judged);
    connection.channel.emplace(hello.secret, Direction::to_node);
    const auto number_of = numbers_.find(hello.node);
    if (number_of == numbers_.end())
      return refuse(answer.ticket,
                    {Refusal::Code::unknown_node,
                     fmt::format("{} is not a node of {}", printable(hello.node), setup_.job.text())});
    connection.node = number_of->second;
    if (!room_for(answer.ticket, connection.node)) return;
    connection.stage = Stage::join;
    connection.until = Clock::now() + setup_.limits.handshake;
    std::string bytes;
    if (connection.channel->seal(number(Reserved::welcome), {}, bytes))
      write(answer.ticket, connection, std::move(bytes));
  }

  bool room_for(std::uint64_t id, int node) {
    const auto& entry = nodes_[static_cast<std::size_t>(node)];
    if (entry.connection == 0 && !entry.gone) return true;
    refuse(id, {Refusal::Code::already_there,
                fmt::format("{} {}", setup_.nodes[static_cast<std::size_t>(node)],
                            entry.gone ? "was there and has left" : "is there already")});
    return false;
  }

  void take_join(std::uint64_t id, Connection& connection, Frame frame) {
    if (frame.type != number(Reserved::join))
      return refuse(id, {Refusal::Code::protocol,
                         fmt::format("a message of type {:#06x} before it joined", frame.type)});
    if (!room_for(id, connection.node)) return;
    connection.stage = Stage::joined;
    nodes_[static_cast<std::size_t>(connection.node)].connection = id;
    no_stranger(id, connection);
    events_.push_back({Event::Kind::joined, connection.node, 0, std::move(frame.payload), ""});
  }

  // Appends and sends what the kernel takes. False: the connection has ended.
  bool write(std::uint64_t id, Connection& connection, std::string bytes) {
    const bool waited = !connection.out.empty();
    if (waited) connection.out += bytes;
    std::string& out = waited ? connection.out : bytes;
    std::size_t sent = 0;
    while (sent < out.size()) {
      const ssize_t n = ::send(connection.fd.get(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) {
        end(id, std::strerror(errno));
        return false;
      }
      sent += static_cast<std::size_t>(n);
    }
    out.erase(0, sent);
    if (!waited) connection.out = std::move(out);
    const bool waits = !connection.out.empty();
    if (waits != waited) {
      if (waits)
        ++unsent_;
      else
        --unsent_;
      poller_.change(connection.fd.get(), id, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    if (!waits) connection.out.shrink_to_fit();
    if (connection.out.size() <= setup_.limits.waiting) return true;
    end(id, fmt::format("does not take its messages: {} bytes wait", connection.out.size()));
    return false;
  }

  void refuse(std::uint64_t id, const Refusal& refusal) {
    Connection& connection = connections_.at(id);
    std::string bytes;
    const std::string text = refusal_text(refusal);
    if (!connection.channel || !connection.channel->seal(number(Reserved::refused), text, bytes))
      bytes = plain_frame(Reserved::refused_plain, text);
    // Its socket is empty, so this fits; and if not, it learns nothing.
    [[maybe_unused]] const ssize_t n = ::send(connection.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    end(id, refusal.reason);
  }

  // The connection is over: `left` for a node that had joined, `refused` for anybody else.
  void end(std::uint64_t id, const std::string& why) {
    const Connection& connection = connections_.at(id);
    if (connection.stage == Stage::joined) {
      events_.push_back({Event::Kind::left, connection.node, 0, "", why});
    } else {
      const std::string who =
          connection.node < 0
              ? connection.from.text()
              : fmt::format("{} ({})", setup_.nodes[static_cast<std::size_t>(connection.node)],
                            connection.from.text());
      tell_refusal(who, why);
    }
    forget(id);
  }

  void tell_refusal(const std::string& who, const std::string& why) {
    if (++refusals_ <= setup_.limits.refusals_told)
      events_.push_back({Event::Kind::refused, -1, 0, "", fmt::format("{}: {}", who, why)});
  }

  void forget(std::uint64_t id) {
    const auto at = connections_.find(id);
    Connection& connection = at->second;
    if (!connection.out.empty()) --unsent_;
    if (connection.stage == Stage::joined) {
      auto& entry = nodes_[static_cast<std::size_t>(connection.node)];
      entry.connection = 0;
      entry.gone = true;
    } else {
      no_stranger(id, connection);
    }
    connections_.erase(at);
  }

  void no_stranger(std::uint64_t id, const Connection& connection) {
    strangers_.erase(id);
    const auto same = hosts_.find(connection.from.host_key());
    if (same != hosts_.end() && --same->second == 0) hosts_.erase(same);
    if (strangers_.empty()) keep_time(false);
    if (!listening_) listen_again(true);
  }

  [[nodiscard]] std::optional<std::uint64_t> oldest_silent() const {
    for (const auto id : strangers_)
      if (connections_.at(id).stage == Stage::hello) return id;
    return std::nullopt;
  }

  void end_the_late() {
    std::uint64_t ticks = 0;
    [[maybe_unused]] const ssize_t n = ::read(timer_.get(), &ticks, sizeof ticks);
    const auto now = Clock::now();
    std::vector<std::uint64_t> late;
    for (const auto id : strangers_)
      if (connections_.at(id).until <= now) late.push_back(id);
    for (const auto id : late) {
      switch (connections_.at(id).stage) {
        case Stage::hello:
          refuse(id, {Refusal::Code::protocol,
                      fmt::format("no whole hello within {}", format(setup_.limits.silent))});
          break;
        case Stage::opening:
          refuse(id, {Refusal::Code::unavailable,
                      fmt::format("{} at the root has not opened its credential within {}",
                                  credentials_->name(), format(setup_.limits.handshake))});
          break;
        default:
          end(id, fmt::format("did not join within {}", format(setup_.limits.handshake)));
      }
    }
  }

  static std::string format(Clock::duration time) { return fmt::format("{:.1f} s", Seconds(time).count()); }

  void keep_time(bool on) {
    if (on == ticking_) return;
    ticking_ = on;
    itimerspec when{};
    if (on) when.it_value.tv_nsec = when.it_interval.tv_nsec = Nanoseconds(tick).count();
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  }

  void listen_again(bool on) {
    listening_ = on;
    poller_.change(listener_.get(), listener_id, on ? EPOLLIN : 0U);
  }

  ServerSetup setup_;
  std::unique_ptr<Credentials> credentials_;
  Poller poller_;
  UniqueFd listener_;
  UniqueFd timer_;
  UniqueFd spare_;
  std::uint16_t port_ = 0;
  bool ticking_ = false;
  bool listening_ = true;
  std::size_t strangers_allowed_ = 0;
  std::size_t refusals_ = 0;
  std::size_t unsent_ = 0;  // connections with something in `out`
  std::uint64_t next_id_ = first_connection_id;
  std::unordered_map<std::string, int> numbers_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::set<std::uint64_t> strangers_;  // connections that have not joined, the oldest first
  std::map<std::array<unsigned char, 16>, std::size_t> hosts_;  // how many of them a host has
  std::vector<Event> events_;
  std::array<char, read_bytes> buffer_{};
};

Result<Server> Server::listen(ServerSetup setup, std::unique_ptr<Credentials> credentials) {
  auto poller = Poller::make();
  if (!poller) return poller.error();
  auto impl = std::make_unique<Impl>(std::move(setup), std::move(credentials), std::move(*poller));
  auto opened = impl->open();
  if (!opened) return opened.error();
  return Server(std::move(impl));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

std::uint16_t Server::port() const {
  return impl_->port();
}
int Server::fd() const {
  return impl_->fd();
}
std::vector<Event> Server::poll(Deadline deadline) {
  return impl_->poll(deadline);
}
Status Server::send(int node, std::uint16_t type, std::string_view payload) {
  return impl_->send(node, type, payload);
}
Status Server::flush(Deadline deadline) {
  return impl_->flush(deadline);
}
Status Server::finish(Deadline deadline) {
  return impl_->finish(deadline);
}
void Server::close(int node) {
  impl_->close(node);
}
bool Server::joined(int node) const {
  return impl_->joined(node);
}
std::size_t Server::refusals() const {
  return impl_->refusals();
}

}  // namespace nccl_check::rendezvous
