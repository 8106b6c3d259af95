#include "job/rendezvous/frame.hpp"

#include <fmt/format.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>

#include <cstring>

namespace nccl_check::rendezvous {
namespace {

struct Header {
  std::uint32_t length = 0;
  std::uint16_t type = 0;
  std::uint64_t sequence = 0;
};

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = sizeof value; i-- > 0;)
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

template <class T>
T get(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value = static_cast<T>(static_cast<T>(value << 8U) | static_cast<unsigned char>(bytes[at + i]));
  return value;
}

std::string encode(const Header& header) {
  std::string out;
  out.reserve(header_bytes);
  put(out, header.length);
  put(out, header.type);
  put(out, header.sequence);
  return out;
}

Header decode(std::string_view bytes) {
  return {get<std::uint32_t>(bytes, 0), get<std::uint16_t>(bytes, 4), get<std::uint64_t>(bytes, 6)};
}

Error too_large(std::size_t bytes, std::size_t most) {
  return Error{fmt::format("a message of {} bytes, at most {} are taken", bytes, most), "", ""};
}

}  // namespace

std::optional<std::uint16_t> peek_type(std::string_view bytes) {
  if (bytes.size() < header_bytes) return std::nullopt;
  return decode(bytes).type;
}

std::string plain_frame(Reserved type, std::string_view payload) {
  payload = payload.substr(0, most_plain);
  std::string out = encode({static_cast<std::uint32_t>(payload.size()), number(type), 0});
  out += payload;
  return out;
}

Result<std::optional<Frame>> take_plain(std::string_view& bytes) {
  if (bytes.size() < header_bytes) return std::optional<Frame>{};
  const Header header = decode(bytes);
  if (header.length > most_plain) return too_large(header.length, most_plain);
  if (header.sequence != 0)
    return Error{fmt::format("a first message with number {}, expected 0", header.sequence), "", ""};
  if (bytes.size() < header_bytes + header.length) return std::optional<Frame>{};
  Frame frame{header.type, std::string(bytes.substr(header_bytes, header.length))};
  bytes.remove_prefix(header_bytes + header.length);
  return std::optional<Frame>{std::move(frame)};
}

// The context holds what follows from the secret.
void Channel::WipeContext::operator()(hmac_sha256_ctx* context) const {
  ::explicit_bzero(context, sizeof *context);
  delete context;
}

Channel::Channel(const Secret& secret, Direction outgoing)
    : outgoing_(outgoing), context_(new hmac_sha256_ctx) {
  ::hmac_sha256_set_key(context_.get(), Secret::size, secret.data());
}

std::array<unsigned char, mac_bytes> Channel::mac(Direction direction, std::string_view header,
                                                  std::string_view payload) {
  const auto update = [&](std::string_view part) {
    ::hmac_sha256_update(context_.get(), part.size(), reinterpret_cast<const std::uint8_t*>(part.data()));
  };
  const char way = static_cast<char>(direction);
  update({&way, 1});
  update(header);
  update(payload);
  std::array<unsigned char, mac_bytes> code{};
  ::hmac_sha256_digest(context_.get(), code.size(), code.data());  // and begins anew with the same key
  return code;
}

Status Channel::seal(std::uint16_t type, std::string_view payload, std::string& out) {
  if (payload.size() > most_payload(outgoing_)) return too_large(payload.size(), most_payload(outgoing_));
  const std::string header = encode({static_cast<std::uint32_t>(payload.size()), type, sent_});
  const auto code = mac(outgoing_, header, payload);
  ++sent_;
  out.reserve(out.size() + header_bytes + payload.size() + mac_bytes);
  out += header;
  out += payload;
  out.append(reinterpret_cast<const char*>(code.data()), code.size());
  return success();
}

Result<std::optional<Frame>> Channel::take(std::string_view& bytes) {
  if (bytes.size() < header_bytes) return std::optional<Frame>{};
  const Direction incoming = outgoing_ == Direction::to_root ? Direction::to_node : Direction::to_root;
  const Header header = decode(bytes);
  if (header.length > most_payload(incoming)) return too_large(header.length, most_payload(incoming));
  if (header.sequence != received_)
    return Error{
        fmt::format("a message out of order or repeated: number {}, expected {}", header.sequence, received_),
        "", ""};
  const std::size_t size = header_bytes + header.length + mac_bytes;
  if (bytes.size() < size) return std::optional<Frame>{};
  const auto payload = bytes.substr(header_bytes, header.length);
  const auto code = mac(incoming, bytes.substr(0, header_bytes), payload);
  if (::memeql_sec(code.data(), bytes.data() + header_bytes + header.length, mac_bytes) != 1)
    return Error{fmt::format("message {} is not signed with the node's secret", received_), "", ""};
  ++received_;
  Frame frame{header.type, std::string(payload)};
  bytes.remove_prefix(size);
  return std::optional<Frame>{std::move(frame)};
}

}  // namespace nccl_check::rendezvous
