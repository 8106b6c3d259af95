#include "job/rendezvous/secret.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace nccl_check::rendezvous {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Result<Secret> Secret::random() {
  Secret secret;
  // Up to 256 bytes come whole or not at all (getrandom(2)).
  if (::getrandom(secret.bytes_.data(), size, GRND_NONBLOCK) != static_cast<ssize_t>(size))
    return Error{fmt::format("the kernel gives no random bytes: {}", std::strerror(errno)), "", ""};
  return secret;
}

std::optional<Secret> Secret::from_hex(std::string_view hex) {
  if (hex.size() != 2 * size) return std::nullopt;
  Secret secret;
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    secret.bytes_[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return secret;
}

std::string Secret::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * size);
  for (const unsigned char byte : bytes_) {
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
  return out;
}

Secret::~Secret() {
  ::explicit_bzero(bytes_.data(), size);
}

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

}  // namespace nccl_check::rendezvous
