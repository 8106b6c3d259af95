#include "job/rendezvous/client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "job/rendezvous/handshake.hpp"
#include "job/rendezvous/socket.hpp"

namespace nccl_check::rendezvous {
namespace {

constexpr std::uint64_t credentials_id = 0;
constexpr std::uint64_t timer_id = 1;
constexpr std::uint64_t first_attempt_id = 2;

constexpr std::size_t most_addresses = 8;
constexpr std::size_t read_bytes = 64U << 10U;
constexpr std::size_t most_waiting =
    1U << 20U;  // bytes that the coordinator does not take; more: it is given up

constexpr Milliseconds nobody_pause{50};     // to 100: until a port where nobody listened is tried again
constexpr Milliseconds stranger_pause{500};  // to 1000: one that belongs to somebody else
constexpr Milliseconds silent{1000};         // an answer that takes longer: the next port is tried beside it
constexpr int full_round = 8;  // so often all ports are tried: who kept ours at first may have gone since

// One port of one address, and what is going on there.
struct Target {
  SocketAddress to;
  UniqueFd fd;  // of an attempt that is under way
  enum class Stage { idle, connecting, making, waiting } stage = Stage::idle;
  std::uint64_t attempt = 0;     // its number
  Clock::time_point since;       // of the stage
  Clock::time_point not_before;  // the next attempt
  bool others = false;           // it answered last time, but is not our coordinator
  std::string last;              // how the last attempt ended
  std::string in;
  std::optional<Secret> secret;
  std::optional<Channel> channel;
};
using Stage = Target::Stage;

std::string seconds(Clock::duration time) {
  return fmt::format("{:.1f} s", Seconds(time).count());
}

}  // namespace

class Client::Impl {
 public:
  Impl(ClientSetup setup, std::unique_ptr<Credentials> credentials, Deadline join_by, Poller poller)
      : setup_(std::move(setup)),
        credentials_(std::move(credentials)),
        join_by_(join_by),
        started_(Clock::now()),
        poller_(std::move(poller)),
        random_(static_cast<unsigned>(Clock::now().time_since_epoch().count() ^ ::getpid())) {}

  Status open() {
    auto ports = ports_of(setup_.job, setup_.ports);
    if (!ports) return ports.error();
    ports_ = ports->size();
    if (setup_.addresses.empty()) return Error{"no address is known", setup_.root, ""};
    if (setup_.hello.size() > most_to_root)
      return Error{
          fmt::format("a first message of {} bytes, at most {} are taken", setup_.hello.size(), most_to_root),
          setup_.node, ""};
    if (setup_.addresses.size() > most_addresses) setup_.addresses.resize(most_addresses);
    for (const auto& text : setup_.addresses) {
      auto address = SocketAddress::parse(text);
      if (!address)
        return Error{fmt::format("'{}' is not an address", printable(text)), setup_.root,
                     "give a number such as 10.0.0.1 or fd00::1"};
      for (const auto port : *ports) {
        address->set_port(port);
        targets_.emplace_back().to = *address;
      }
    }
    rounds_.resize(setup_.addresses.size());
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!timer_) return Error{fmt::format("cannot make a timer: {}", std::strerror(errno)), "", ""};
    auto added = poller_.add(timer_.get(), timer_id, EPOLLIN);
    // Edges, not levels: when the service ends, its descriptor stays readable for ever.
    if (added && credentials_->fd() >= 0)
      added = poller_.add(credentials_->fd(), credentials_id, EPOLLIN | EPOLLET);
    if (!added) return added;
    try_ports();
    return success();
  }

  std::vector<Frame> advance() {
    std::array<epoll_event, 64> ready{};
    const int count = ::epoll_wait(poller_.fd(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count && state_ != State::failed; ++i) {
      const auto& event = ready[static_cast<std::size_t>(i)];
      switch (event.data.u64) {
        case credentials_id:
          take_answers();
          break;
        case timer_id: {
          std::uint64_t ticks = 0;
          [[maybe_unused]] const ssize_t n = ::read(timer_.get(), &ticks, sizeof ticks);
          break;
        }
        default:
          serve(event.data.u64, event.events);
      }
    }
    if (state_ == State::joining) try_ports();
    if (state_ == State::joining && join_by_.passed()) fail(story());
    return std::exchange(frames_, {});
  }

  std::vector<Frame> wait(Deadline deadline) {
    const State before = state_;
    for (;;) {
      auto frames = advance();
      if (!frames.empty() || state_ != before || state_ == State::failed || deadline.passed()) return frames;
      const Deadline until = state_ == State::joining ? deadline.earlier(join_by_) : deadline;
      pollfd one{poller_.fd(), POLLIN, 0};
      ::poll(&one, 1, until.poll_ms());
    }
  }

  Status send(std::uint16_t type, std::string_view payload) {
    if (state_ == State::failed) return error_;
    if (state_ == State::joining) return Error{"not joined yet", setup_.root, ""};
    if (type >= first_reserved)
      return Error{fmt::format("{:#06x} is no type for a message", type), setup_.node, ""};
    auto sealed = root().channel->seal(type, payload, out_);
    if (!sealed) return sealed;
    write();
    if (state_ == State::failed) return error_;
    return success();
  }

  Status flush(Deadline deadline) {
    while (state_ == State::joined && !out_.empty() && !deadline.passed()) {
      pollfd one{root().fd.get(), POLLOUT, 0};
      if (::poll(&one, 1, deadline.poll_ms()) > 0) write();
    }
    if (state_ == State::failed) return error_;
    if (!out_.empty())
      return Error{fmt::format("did not take {} bytes in time", out_.size()), where(root()), ""};
    return success();
  }

  [[nodiscard]] int fd() const { return poller_.fd(); }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] std::string address() const { return joined_at_ ? targets_[*joined_at_].to.text() : ""; }

 private:
  [[nodiscard]] Target& root() { return targets_[*joined_at_]; }
  [[nodiscard]] std::string where(const Target& target) const {
    return fmt::format("{} ({})", setup_.root, target.to.text());
  }

  // Which ports are tried now, an address at a time. The coordinator took the first that was free, so the
  // next one matters only where the one before is somebody else's, or silent; once in a while all.
  void try_ports() {
    const auto now = Clock::now();
    auto next = join_by_.at();  // when to look again
    for (std::size_t first = 0; first < targets_.size(); first += ports_) {
      int& rounds = rounds_[first / ports_];
      for (std::size_t i = first; i < first + ports_; ++i) {
        Target& target = targets_[i];
        if (target.stage == Stage::idle && now >= target.not_before) {
          if (i == first) ++rounds;
          dial(target);
        }
        const bool mute = target.stage != Stage::idle && now - target.since > silent;
        if (!mute)
          next = std::min(next, target.stage == Stage::idle ? target.not_before : target.since + silent);
        if (!target.others && !mute && rounds % full_round != 0) break;
      }
    }
    wake_at(next);
  }

  void dial(Target& target) {
    target.attempt = next_attempt_++;
    target.since = Clock::now();
    int code = start_connecting(target.to, target.fd);
    if (code == 0 && !poller_.add(target.fd.get(), target.attempt, EPOLLOUT)) code = EIO;
    if (code != 0) return give_up(target, code);
    target.stage = Stage::connecting;
  }

  void give_up(Target& target, int code) {
    give_up(target, code == ECONNREFUSED ? "nobody listened" : std::strerror(code), false);
  }

  void give_up(Target& target, std::string why, bool others) {
    target.fd.reset();
    target.stage = Stage::idle;
    target.secret.reset();
    target.channel.reset();
    target.in.clear();
    target.last = std::move(why);
    target.others = others;
    // Not all nodes at the same moments.
    const auto pause = others ? stranger_pause : nobody_pause;
    target.not_before = Clock::now() + pause + Milliseconds(random_() % static_cast<unsigned>(pause.count()));
  }

  void serve(std::uint64_t attempt, std::uint32_t events) {
    for (auto& target : targets_) {
      if (target.attempt != attempt || target.stage == Stage::idle) continue;
      if (state_ == State::joined) {
        if ((events & EPOLLOUT) != 0) write();
        if (state_ == State::joined && (events & ~EPOLLOUT) != 0) read(target);
      } else if (target.stage == Stage::connecting) {
        take_connection(target);
      } else {
        read(target);
      }
      break;
    }
  }

  void take_connection(Target& target) {
    if (const int code = connected(target.fd.get()); code != 0) return give_up(target, code);
    auto secret = Secret::random();
    if (!secret) return give_up(target, secret.error().text(), false);
    target.secret = *secret;
    target.stage = Stage::making;
    target.since = Clock::now();
    poller_.change(target.fd.get(), target.attempt, EPOLLIN);
    std::string payload =
        credential_payload({protocol_version, setup_.job, setup_.node, target.to.port(), *secret});
    asked_.emplace(target.attempt, target.since);
    credentials_->make(target.attempt, payload);
    wipe(payload);
    take_answers();
  }

  void take_answers() {
    for (auto& answer : credentials_->answers()) {
      asked_.erase(answer.ticket);
      if (answer.problem != Answer::Problem::none) trouble_ = answer.why;
      for (auto& target : targets_)
        if (target.attempt == answer.ticket && target.stage == Stage::making) say_hello(target, answer);
    }
  }

  void say_hello(Target& target, const Answer& answer) {
    if (answer.problem != Answer::Problem::none) {
      give_up(target,
              fmt::format("somebody listened, but {} on {} made no credential", credentials_->name(),
                          setup_.node),
              false);
      target.not_before = Clock::now() + stranger_pause;
      return;
    }
    trouble_.clear();
    target.channel.emplace(*target.secret, Direction::to_root);
    target.stage = Stage::waiting;
    target.since = Clock::now();
    const std::string bytes = plain_frame(Reserved::hello, hello_text(answer.text));
    // A new connection has room for it.
    if (::send(target.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size()))
      give_up(target, fmt::format("somebody listened, and took no hello: {}", std::strerror(errno)), true);
  }

  // False: nothing came.
  bool read(Target& target) {
    std::array<char, read_bytes> buffer;  // NOLINT: recv fills what is read of it
    const ssize_t n = ::recv(target.fd.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) {
      const std::string how = n < 0 ? std::string(std::strerror(errno)) : "closed the connection";
      if (state_ == State::joined) {
        fail({how, where(target), ""});
      } else {
        give_up(target, "somebody listened, and ended it without a word: " + how, true);
      }
      return false;
    }
    target.in.append(buffer.data(), static_cast<std::size_t>(n));
    const std::string whole = std::exchange(target.in, {});
    std::string_view bytes = whole;
    while (!bytes.empty() && target.stage == Stage::waiting && state_ != State::failed) {
      const std::size_t before = bytes.size();
      if (state_ == State::joined) {
        read_message(target, bytes);
      } else {
        read_answer(target, bytes);
      }
      if (bytes.size() == before) break;
    }
    if (target.stage == Stage::waiting && !bytes.empty()) target.in = bytes;
    if (target.stage == Stage::making) give_up(target, "somebody listened, and spoke first", true);
    return state_ != State::failed;
  }

  // To the hello: a welcome or a refusal. Whatever is not signed proves nothing and ends nothing but this
  // attempt.
  void read_answer(Target& target, std::string_view& bytes) {
    const bool plain = peek_type(bytes) == number(Reserved::refused_plain);
    auto frame = plain ? take_plain(bytes) : target.channel->take(bytes);
    if (!frame) {
      bytes = {};
      return give_up(target, "somebody listened who could not prove to be the root: " + frame.error().text(),
                     true);
    }
    if (!*frame) return;
    const auto refusal = parse_refusal_text((*frame)->payload);
    const auto type = (*frame)->type;
    if (type == number(Reserved::welcome)) return join(target);
    if ((type == number(Reserved::refused) || plain) && refusal) {
      if (!plain && final(refusal->code)) return fail({refusal->reason, where(target), ""});
      return give_up(target, "refused: " + refusal->reason, true);
    }
    give_up(target, fmt::format("somebody listened, and answered with a message of type {:#06x}", type),
            true);
  }

  void join(Target& target) {
    joined_at_ = static_cast<std::size_t>(&target - targets_.data());
    state_ = State::joined;
    wake_at({});
    for (auto& other : targets_)
      if (&other != &target && other.stage != Stage::idle) give_up(other, "", false);
    auto sealed = target.channel->seal(number(Reserved::join), setup_.hello, out_);
    if (!sealed) return fail(sealed.error());
    write();
  }

  void read_message(Target& target, std::string_view& bytes) {
    auto frame = target.channel->take(bytes);
    if (!frame) return fail({frame.error().text(), where(target), ""});
    if (!*frame) return;
    if ((*frame)->type < first_reserved) {
      frames_.push_back(std::move(**frame));
      return;
    }
    const auto refusal = parse_refusal_text((*frame)->payload);
    if ((*frame)->type == number(Reserved::refused) && refusal)
      return fail({refusal->reason, where(target), ""});
    fail({fmt::format("a message of the unknown type {:#06x}", (*frame)->type), where(target), ""});
  }

  void write() {
    Target& target = root();
    std::size_t sent = 0;
    while (sent < out_.size()) {
      const ssize_t n = ::send(target.fd.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) {
        const Error error{std::strerror(errno), where(target), ""};
        while (read(target)) continue;  // its last word may still be there
        return fail(error);
      }
      sent += static_cast<std::size_t>(n);
    }
    out_.erase(0, sent);
    if (out_.size() > most_waiting)
      return fail({fmt::format("does not take its messages: {} bytes wait", out_.size()), where(target), ""});
    poller_.change(target.fd.get(), target.attempt, out_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
  }

  void fail(Error error) {
    if (state_ == State::failed) return;
    state_ = State::failed;
    error_ = std::move(error);
    wake_at({});
    for (auto& target : targets_) {
      target.fd.reset();
      target.stage = Stage::idle;
      target.secret.reset();
      target.channel.reset();
    }
  }

  // Why nobody was found. Ports with the same story are told together.
  [[nodiscard]] Error story() const {
    std::vector<std::string> parts;
    const auto now = Clock::now();
    for (const auto& [ticket, since] : asked_)
      if (now - since > silent) {
        parts.push_back(fmt::format("{} on {} has not answered for {}", credentials_->name(), setup_.node,
                                    seconds(now - since)));
        break;
      }
    if (!trouble_.empty())
      parts.push_back(fmt::format("{} on {}: {}", credentials_->name(), setup_.node, trouble_));
    for (std::size_t first = 0; first < targets_.size(); first += ports_) {
      std::vector<std::pair<std::string, std::vector<std::string>>> told;  // what happened, on which ports
      for (std::size_t i = first; i < first + ports_; ++i) {
        const auto& target = targets_[i];
        std::string what = target.last;
        if (target.stage == Stage::connecting && now - target.since > silent)
          what = "no answer to a connection";
        if (target.stage == Stage::waiting)
          what = fmt::format("somebody listened, and has not answered for {}", seconds(now - target.since));
        if (what.empty()) continue;
        const auto same =
            std::find_if(told.begin(), told.end(), [&](const auto& t) { return t.first == what; });
        auto& ports =
            same == told.end() ? told.emplace_back(what, std::vector<std::string>{}).second : same->second;
        ports.push_back(std::to_string(target.to.port()));
      }
      for (const auto& [what, ports] : told)
        parts.push_back(
            fmt::format("port {} of {}: {}", compress_hostlist(ports), targets_[first].to.host(), what));
    }
    if (parts.empty()) parts.emplace_back("no answer to a connection");
    return {fmt::format("the root of {} was not reached within {}: {}", setup_.job.text(),
                        seconds(now - started_), nccl_check::join(parts, "; ")),
            setup_.root, ""};
  }

  void wake_at(Clock::time_point time) {  // the clock's start: never
    const auto since_start = std::chrono::duration_cast<Nanoseconds>(time.time_since_epoch());
    itimerspec when{};
    when.it_value.tv_sec = since_start.count() / 1'000'000'000;
    when.it_value.tv_nsec = since_start.count() % 1'000'000'000;
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  ClientSetup setup_;
  std::unique_ptr<Credentials> credentials_;
  Deadline join_by_;
  Clock::time_point started_;
  Poller poller_;
  UniqueFd timer_;
  std::minstd_rand random_;
  State state_ = State::joining;
  Error error_;
  std::size_t ports_ = 0;
  std::vector<Target> targets_;  // address by address, the ports of each in their order
  std::optional<std::size_t> joined_at_;
  std::uint64_t next_attempt_ = first_attempt_id;
  std::vector<int> rounds_;                           // an address: how often its first port was tried
  std::map<std::uint64_t, Clock::time_point> asked_;  // credentials that are being made, by attempt
  std::string trouble_;                               // the service's last word, if that was none of success
  std::string out_;
  std::vector<Frame> frames_;
};

Result<Client> Client::start(ClientSetup setup, std::unique_ptr<Credentials> credentials, Deadline join_by) {
  auto poller = Poller::make();
  if (!poller) return poller.error();
  auto impl = std::make_unique<Impl>(std::move(setup), std::move(credentials), join_by, std::move(*poller));
  auto opened = impl->open();
  if (!opened) return opened.error();
  return Client(std::move(impl));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

int Client::fd() const {
  return impl_->fd();
}
std::vector<Frame> Client::advance() {
  return impl_->advance();
}
std::vector<Frame> Client::wait(Deadline deadline) {
  return impl_->wait(deadline);
}
Client::State Client::state() const {
  return impl_->state();
}
const Error& Client::error() const {
  return impl_->error();
}
std::string Client::address() const {
  return impl_->address();
}
Status Client::send(std::uint16_t type, std::string_view payload) {
  return impl_->send(type, payload);
}
Status Client::flush(Deadline deadline) {
  return impl_->flush(deadline);
}

}  // namespace nccl_check::rendezvous
