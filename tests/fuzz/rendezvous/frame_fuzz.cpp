// The frame parser, on both sides. Bytes that were not sealed never become a frame; frames that were sealed
// come out as they were, and nothing behind the first changed byte comes out.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "check.hpp"
#include "job/rendezvous/frame.hpp"

namespace rv = nccl_check::rendezvous;

namespace {

const rv::Secret& secret() {
  static const rv::Secret one = *rv::Secret::random();
  return one;
}

rv::Channel end(rv::Direction outgoing) {
  return rv::Channel(secret(), outgoing);
}

// As a connection does it: bytes come in pieces, the rest of a frame waits.
template <class Take>
std::vector<rv::Frame> deliver(std::string_view bytes, std::size_t piece, const Take& take) {
  std::vector<rv::Frame> frames;
  std::string waiting;
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    waiting += part;
    std::string_view view = waiting;
    for (;;) {
      const auto before = view.size();
      auto frame = take(view);
      if (!frame) return frames;
      if (!*frame) {
        FUZZ_CHECK(view.size() == before);
        break;
      }
      FUZZ_CHECK(view.size() < before);
      frames.push_back(std::move(**frame));
    }
    waiting = std::string(view);
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const bool root = (data[0] & 1U) != 0;
  const auto here = root ? rv::Direction::to_node : rv::Direction::to_root;
  const auto there = root ? rv::Direction::to_root : rv::Direction::to_node;
  const std::size_t piece = data[1] + 1U;
  const std::size_t changed = data[2] * 256U + data[3];
  const std::string_view rest(reinterpret_cast<const char*>(data) + 4, size - 4);

  // Raw bytes.
  rv::Channel receiver = end(here);
  FUZZ_CHECK(deliver(rest, piece, [&](std::string_view& v) { return receiver.take(v); }).empty());
  for (const auto& frame : deliver(rest, piece, rv::take_plain))
    FUZZ_CHECK(frame.payload.size() <= rv::most_plain);

  // Sealed frames whose sizes and payloads the input chooses; then a byte is changed, or none.
  rv::Channel sender = end(there);
  rv::Channel fresh = end(here);
  std::string wire;
  std::vector<rv::Frame> sealed;
  std::vector<std::size_t> ends;
  for (std::string_view left = rest; left.size() >= 2 && sealed.size() < 16;) {
    const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(left[0]), left.size() - 2);
    sealed.push_back({static_cast<std::uint16_t>(static_cast<unsigned char>(left[1])),
                      std::string(left.substr(2, length))});
    FUZZ_CHECK(static_cast<bool>(sender.seal(sealed.back().type, sealed.back().payload, wire)));
    ends.push_back(wire.size());
    left.remove_prefix(2 + length);
  }
  std::size_t good = sealed.size();
  if (changed < wire.size() && (data[0] & 2U) != 0) {
    wire[changed] = static_cast<char>(wire[changed] ^ static_cast<char>((data[0] >> 2U) | 1U));
    good = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), changed) - ends.begin());
  }
  const auto frames = deliver(wire, piece, [&](std::string_view& v) { return fresh.take(v); });
  FUZZ_CHECK(frames.size() == good);
  for (std::size_t i = 0; i < good; ++i)
    FUZZ_CHECK(frames[i].type == sealed[i].type && frames[i].payload == sealed[i].payload);
  return 0;
}
