// A real coordinator, and a real node, whose peer sends what the input says: at any stage of the handshake or
// after it.
#include <cstdint>

#include "check.hpp"
#include "support.hpp"

namespace rv = nccl_check::rendezvous;
using nccl_check::Deadline;
using nccl_check::Milliseconds;

namespace {

const rv::PortRange& ports() {
  static const rv::PortRange range = [] {
    auto found = rv::test::free_ports();
    found.last = found.first;
    return found;
  }();
  return range;
}

void send_in_pieces(const rv::test::Raw& raw, std::string_view bytes, std::size_t piece,
                    const std::function<void()>& between) {
  while (!bytes.empty() && raw.send(bytes.substr(0, piece))) {
    bytes.remove_prefix(std::min(piece, bytes.size()));
    between();
  }
}

// How far the peer behaves before it sends the input: 0 says nothing, 1 hello, 2 join, 3 one message.
void root_side(int stage, std::size_t piece, std::string_view input) {
  rv::test::World world;
  auto made = rv::Server::listen({rv::test::a_job(), ports(), {"n1", "n2"}, 0, {}}, rv::test::fake(world));
  if (!made) return;  // the port is busy for a moment
  rv::Server server = std::move(*made);
  auto secret = rv::Secret::random();
  auto maker = rv::test::fake(world);
  maker->make(
      0, rv::credential_payload({rv::protocol_version, rv::test::a_job(), "n2", server.port(), *secret}));
  rv::Channel channel = rv::test::channel(*secret, rv::Direction::to_root);
  std::string bytes;
  if (stage > 0) bytes = rv::plain_frame(rv::Reserved::hello, rv::hello_text(maker->answers().front().text));
  if (stage > 1) FUZZ_CHECK(static_cast<bool>(channel.seal(rv::number(rv::Reserved::join), "hello", bytes)));
  if (stage > 2) FUZZ_CHECK(static_cast<bool>(channel.seal(1, "message", bytes)));
  rv::test::Raw raw(server.port());
  std::size_t messages = 0;
  std::size_t ended = 0;
  const auto poll = [&] {
    for (const auto& event : server.poll(Deadline::in(Milliseconds(0)))) {
      if (event.kind == rv::Event::Kind::message) {
        ++messages;
        FUZZ_CHECK(event.node == 1 && event.type == 1 && event.payload == "message");
      }
      if (event.kind == rv::Event::Kind::left || event.kind == rv::Event::Kind::refused) ++ended;
    }
  };
  if (!raw.send(bytes)) return;
  poll();
  send_in_pieces(raw, input, piece, poll);
  raw.close();
  for (const auto deadline = Deadline::in(Milliseconds(2000)); ended == 0 && !deadline.passed();) poll();
  FUZZ_CHECK(ended == 1);
  FUZZ_CHECK(messages == (stage > 2 ? 1U : 0U));
  FUZZ_CHECK(!server.joined(1));
}

void node_side(int stage, std::size_t piece, std::string_view input) {
  rv::test::World world;
  rv::test::Squatter root(ports().first);
  if (!root.good()) return;
  auto made = rv::Client::start({rv::test::a_job(), ports(), "n2", "n1", {"127.0.0.1"}, "hello"},
                                rv::test::fake(world), Deadline::in(Milliseconds(5000)));
  FUZZ_CHECK(static_cast<bool>(made));
  rv::Client client = std::move(*made);
  rv::test::Raw raw = root.accept();
  std::size_t frames = 0;
  const auto advance = [&] {
    for (const auto& frame : client.advance()) {
      ++frames;
      FUZZ_CHECK(frame.type == 1 && frame.payload == "message");
    }
  };
  for (const auto deadline = Deadline::in(Milliseconds(2000)); world.made.empty() && !deadline.passed();)
    advance();
  FUZZ_CHECK(!world.made.empty());
  auto hello = rv::parse_credential_payload(world.made.begin()->second.payload);
  rv::Channel channel = rv::test::channel(hello->secret, rv::Direction::to_node);
  std::string bytes;
  if (stage > 1) FUZZ_CHECK(static_cast<bool>(channel.seal(rv::number(rv::Reserved::welcome), "", bytes)));
  if (stage > 2) FUZZ_CHECK(static_cast<bool>(channel.seal(1, "message", bytes)));
  if (!raw.send(bytes)) return;
  advance();
  send_in_pieces(raw, input, piece, advance);
  raw.close();
  for (const auto deadline = Deadline::in(Milliseconds(2000));
       stage > 1 && client.state() != rv::Client::State::failed && !deadline.passed();)
    advance();
  FUZZ_CHECK(stage > 1 ? client.state() == rv::Client::State::failed
                       : client.state() == rv::Client::State::joining);
  FUZZ_CHECK(frames == (stage > 2 ? 1U : 0U));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const int stage = (data[0] >> 1U) % 4;
  const std::size_t piece = data[1] + 1U;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[0] & 1U) != 0)
    root_side(stage, piece, input);
  else
    node_side(stage, piece, input);
  return 0;
}
