#pragma once
// The few calls on TCP sockets that both ends need. All sockets are non-blocking and close on exec.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace nccl_check::rendezvous {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // A number such as 10.0.0.1, fe80::1%eth0; never asks a resolver.
  static std::optional<SocketAddress> parse(const std::string& number);
  void set_port(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string host() const;  // an IPv4 address inside IPv6 is shown as IPv4
  [[nodiscard]] std::string text() const;  // "10.0.0.1:61003", "[fd00::1]:61003"
  // Equal for connections of one host: the address without the port.
  [[nodiscard]] std::array<unsigned char, 16> host_key() const;
};

// All return 0 or an errno.
int listen_on(std::uint16_t port, UniqueFd& out);  // every address of this host, IPv6 and IPv4
int start_connecting(const SocketAddress& to, UniqueFd& out);
int connected(int fd);  // once it is writable; a connection of a socket with itself counts as ECONNREFUSED

void tune(int fd);  // small messages at once; a peer that vanished without a word is noticed in about 6 s

// One epoll with numbers.
class Poller {
 public:
  static Result<Poller> make();
  [[nodiscard]] int fd() const { return epoll_.get(); }
  Status add(int fd, std::uint64_t id, std::uint32_t events) const;
  void change(int fd, std::uint64_t id, std::uint32_t events) const;

 private:
  UniqueFd epoll_;
};

}  // namespace nccl_check::rendezvous
