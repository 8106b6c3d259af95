#include "job/rendezvous/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

namespace nccl_check::rendezvous {
namespace {

constexpr int backlog = 4096;  // the kernel cuts it to net.core.somaxconn

template <class T>
T as(const sockaddr_storage& storage) {
  T out{};
  std::memcpy(&out, &storage, sizeof out);
  return out;
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

int listen_with(int family, std::uint16_t port, UniqueFd& out) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // past connections of an earlier job do not keep the port
  sockaddr_storage any{};
  socklen_t size = 0;
  if (family == AF_INET6) {
    set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    size = sizeof address;
    std::memcpy(&any, &address, size);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    size = sizeof address;
    std::memcpy(&any, &address, size);
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), size) != 0) return errno;
  if (::listen(fd.get(), backlog) != 0) return errno;
  out = std::move(fd);
  return 0;
}

}  // namespace

std::optional<SocketAddress> SocketAddress::parse(const std::string& number) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (number.empty() || ::getaddrinfo(number.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  SocketAddress out;
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return out;
}

void SocketAddress::set_port(std::uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    auto address = as<sockaddr_in6>(storage);
    address.sin6_port = htons(port);
    std::memcpy(&storage, &address, sizeof address);
  } else {
    auto address = as<sockaddr_in>(storage);
    address.sin_port = htons(port);
    std::memcpy(&storage, &address, sizeof address);
  }
}

std::uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? as<sockaddr_in6>(storage).sin6_port
                                             : as<sockaddr_in>(storage).sin_port);
}

std::string SocketAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "?";
  const std::string host(text.data());
  return host.rfind("::ffff:", 0) == 0 ? host.substr(7) : host;
}

std::string SocketAddress::text() const {
  const std::string name = host();
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port())
                                             : fmt::format("[{}]:{}", name, port());
}

std::array<unsigned char, 16> SocketAddress::host_key() const {
  std::array<unsigned char, 16> key{};
  if (storage.ss_family == AF_INET6) {
    const auto address = as<sockaddr_in6>(storage);
    std::memcpy(key.data(), &address.sin6_addr, key.size());
  } else {
    const auto address = as<sockaddr_in>(storage);
    std::memcpy(key.data(), &address.sin_addr, sizeof address.sin_addr);
  }
  return key;
}

int listen_on(std::uint16_t port, UniqueFd& out) {
  const int code = listen_with(AF_INET6, port, out);
  const bool no_ipv6 = code == EAFNOSUPPORT || code == EADDRNOTAVAIL;
  return no_ipv6 ? listen_with(AF_INET, port, out) : code;
}

int start_connecting(const SocketAddress& to, UniqueFd& out) {
  UniqueFd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  tune(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) != 0 &&
      errno != EINPROGRESS)
    return errno;
  out = std::move(fd);
  return 0;
}

int connected(int fd) {
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) return errno;
  if (code != 0) return code;
  // Towards a free port of this host the kernel may pick that very port as the source: the socket then meets
  // itself.
  SocketAddress here;
  SocketAddress there;
  here.size = there.size = sizeof(sockaddr_storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.size) != 0) return errno;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there.storage), &there.size) != 0) return errno;
  return here.port() == there.port() && here.host_key() == there.host_key() ? ECONNREFUSED : 0;
}

void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 6000);  // keepalive rests while something is unacknowledged
}

Result<Poller> Poller::make() {
  Poller poller;
  poller.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!poller.epoll_) return Error{fmt::format("cannot make an epoll: {}", std::strerror(errno)), "", ""};
  return poller;
}

Status Poller::add(int fd, std::uint64_t id, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return Error{fmt::format("cannot watch a descriptor: {}", std::strerror(errno)), "", ""};
  return success();
}

void Poller::change(int fd, std::uint64_t id, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

}  // namespace nccl_check::rendezvous
