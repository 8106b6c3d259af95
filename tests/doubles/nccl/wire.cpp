#include "tests/doubles/nccl/wire.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace nccl_check::doubles {
namespace {

constexpr std::uint64_t most_payload = std::uint64_t{1} << 30U;

bool send_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t bytes) {
  auto* at = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, at, bytes, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

bool send_message(int fd, const Header& header, const void* payload) {
  return send_all(fd, &header, sizeof header) && send_all(fd, payload, header.bytes);
}

bool receive_message(int fd, Header& header, Bytes& payload) {
  if (!receive_all(fd, &header, sizeof header) || header.bytes > most_payload) return false;
  payload.resize(header.bytes);
  return receive_all(fd, payload.data(), payload.size());
}

}  // namespace nccl_check::doubles
