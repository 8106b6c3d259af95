#pragma once
// What is on the wire between a node and the coordinator, without any I/O.
//
//   | u32 payload bytes | u16 type | u64 sequence | payload | 32 bytes HMAC-SHA256 |        big-endian
//
// The HMAC, under the node's secret, is over direction, sequence, type, length and payload. Each direction
// counts its frames from 0, so that nothing can be replayed, reordered, reflected or left out. The first
// words of a handshake, before there is a shared secret, are plain: sequence 0, no HMAC.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "job/rendezvous/secret.hpp"

struct hmac_sha256_ctx;  // nettle's

namespace nccl_check::rendezvous {

struct Frame {
  std::uint16_t type = 0;
  std::string payload;
};

enum class Direction : unsigned char { to_root = 1, to_node = 2 };

constexpr std::size_t header_bytes = 14;
constexpr std::size_t mac_bytes = 32;
constexpr std::size_t most_plain = 4096;           // payload of a plain frame
constexpr std::size_t most_to_root = 64U << 10U;   // payload of a node's frame
constexpr std::size_t most_to_node = 256U << 10U;  // payload of the coordinator's
constexpr std::size_t most_payload(Direction d) {
  return d == Direction::to_root ? most_to_root : most_to_node;
}

// From here on types are the transport's own; what is carried uses smaller ones.
constexpr std::uint16_t first_reserved = 0xff00;
enum class Reserved : std::uint16_t {
  hello = 0xff01,          // node, plain: protocol and credential
  welcome = 0xff02,        // coordinator: it holds the secret, so it could open the credential
  join = 0xff03,           // node: it holds the secret too, so this is not somebody's copy of its credential
  refused = 0xff04,        // coordinator: why not
  refused_plain = 0xff05,  // the same from a coordinator that has no secret of this node's; proves nothing
};
constexpr std::uint16_t number(Reserved type) {
  return static_cast<std::uint16_t>(type);
}

// The type of the first frame in `bytes`, before anything of it is checked.
std::optional<std::uint16_t> peek_type(std::string_view bytes);

std::string plain_frame(Reserved type, std::string_view payload);  // at most most_plain bytes

// Both take the first frame off `bytes`, if all of it is there; nothing: more bytes are needed. An error is
// final for the connection: whatever follows cannot be trusted.
Result<std::optional<Frame>> take_plain(std::string_view& bytes);

// One node's authenticated connection, seen from one of its ends.
class Channel {
 public:
  Channel(const Secret& secret, Direction outgoing);

  Status seal(std::uint16_t type, std::string_view payload, std::string& out);  // appends the frame
  Result<std::optional<Frame>> take(std::string_view& bytes);

 private:
  struct WipeContext {
    void operator()(hmac_sha256_ctx* context) const;
  };
  std::array<unsigned char, mac_bytes> mac(Direction direction, std::string_view header,
                                           std::string_view payload);

  Direction outgoing_;
  std::unique_ptr<hmac_sha256_ctx, WipeContext> context_;  // keyed
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace nccl_check::rendezvous
