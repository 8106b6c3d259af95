#include "job/rendezvous/frame.hpp"

#include <gmock/gmock.h>

#include "support.hpp"

namespace nccl_check::rendezvous {
namespace {

using testing::HasSubstr;

struct Ends {
  Secret secret = *Secret::random();
  Channel node = test::channel(secret, Direction::to_root);
  Channel root = test::channel(secret, Direction::to_node);
};

std::string sealed(Channel& channel, std::uint16_t type, std::string_view payload) {
  std::string bytes;
  EXPECT_TRUE(channel.seal(type, payload, bytes));
  return bytes;
}

// "" for a frame, "..." for one that is not whole, else the error.
std::string outcome(Channel& channel, std::string_view bytes) {
  auto frame = channel.take(bytes);
  if (!frame) return frame.error().text();
  return *frame ? "" : "...";
}

TEST(Channel, CarriesFramesBothWays) {
  Ends ends;
  for (int i = 0; i < 3; ++i) {
    for (auto [from, to] : {std::pair{&ends.node, &ends.root}, std::pair{&ends.root, &ends.node}}) {
      std::string bytes = sealed(*from, 7, "payload");
      bytes += sealed(*from, 8, "");
      std::string_view rest = bytes;
      auto first = to->take(rest);
      ASSERT_TRUE(first && *first);
      EXPECT_EQ((*first)->type, 7);
      EXPECT_EQ((*first)->payload, "payload");
      auto second = to->take(rest);
      ASSERT_TRUE(second && *second);
      EXPECT_EQ((*second)->type, 8);
      EXPECT_EQ((*second)->payload, "");
      EXPECT_TRUE(rest.empty());
    }
  }
}

TEST(Channel, WaitsForTheRestWhereverAFrameIsCut) {
  Ends ends;
  const std::string bytes = sealed(ends.node, 7, "some payload");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::string_view part(bytes.data(), length);
    auto frame = ends.root.take(part);
    ASSERT_TRUE(frame) << length;
    EXPECT_FALSE(*frame) << length;
    EXPECT_EQ(part.size(), length);
  }
  EXPECT_EQ(outcome(ends.root, bytes), "");
}

TEST(Channel, RefusesAFrameInWhichAnyBitWasTurned) {
  Ends ends;
  const std::string good = sealed(ends.node, 7, "some payload");
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[byte] = static_cast<char>(static_cast<unsigned char>(bytes[byte]) ^ (1U << bit));
      bytes += std::string(65'536, 'x');  // so that a longer length finds its bytes
      EXPECT_THAT(outcome(ends.root, bytes),
                  testing::AnyOf(HasSubstr("not signed"), HasSubstr("out of order"),
                                 HasSubstr("at most 65536 are taken")))
          << byte << "." << bit;
    }
  }
  EXPECT_EQ(outcome(ends.root, good), "");  // and is none the worse for it
}

TEST(Channel, RefusesReplayedReorderedAndMissingFrames) {
  Ends ends;
  const std::string first = sealed(ends.node, 1, "a");
  const std::string second = sealed(ends.node, 2, "b");
  const std::string third = sealed(ends.node, 3, "c");
  EXPECT_THAT(outcome(ends.root, second), HasSubstr("number 1, expected 0"));
  EXPECT_EQ(outcome(ends.root, first), "");
  EXPECT_THAT(outcome(ends.root, first), HasSubstr("out of order or repeated: number 0, expected 1"));
  EXPECT_THAT(outcome(ends.root, third), HasSubstr("number 2, expected 1"));
  EXPECT_EQ(outcome(ends.root, second), "");
  EXPECT_EQ(outcome(ends.root, third), "");
}

TEST(Channel, RefusesItsOwnFramesReflected) {
  Ends ends;
  EXPECT_THAT(outcome(ends.node, sealed(ends.node, 1, "a")), HasSubstr("not signed"));
}

TEST(Channel, RefusesAnotherNodesFrames) {
  Ends ends;
  Ends others;
  EXPECT_THAT(outcome(ends.root, sealed(others.node, 1, "a")), HasSubstr("not signed"));
}

TEST(Channel, BoundsPayloadsByDirectionBeforeTheyCome) {
  Ends ends;
  std::string bytes;
  EXPECT_EQ(outcome(ends.root, sealed(ends.node, 1, std::string(most_to_root, 'x'))), "");
  EXPECT_EQ(outcome(ends.node, sealed(ends.root, 1, std::string(most_to_node, 'x'))), "");
  const auto large = ends.node.seal(1, std::string(most_to_root + 1, 'x'), bytes);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().text(), HasSubstr("65537 bytes, at most 65536"));
  EXPECT_FALSE(ends.root.seal(1, std::string(most_to_node + 1, 'x'), bytes));
  EXPECT_TRUE(bytes.empty());
  // The header alone of what a node may receive is refused by the root.
  Channel other_root = test::channel(ends.secret, Direction::to_node);
  const std::string to_node = sealed(other_root, 1, std::string(most_to_root + 1, 'x'));
  Channel fresh = test::channel(ends.secret, Direction::to_node);
  EXPECT_THAT(outcome(fresh, std::string_view(to_node).substr(0, header_bytes)), HasSubstr("at most 65536"));
}

TEST(PlainFrame, IsTakenWholeOrNotAtAll) {
  const std::string bytes = plain_frame(Reserved::hello, "text");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::string_view part(bytes.data(), length);
    auto frame = take_plain(part);
    ASSERT_TRUE(frame);
    EXPECT_FALSE(*frame);
  }
  std::string_view whole = bytes;
  auto frame = take_plain(whole);
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->type, number(Reserved::hello));
  EXPECT_EQ((*frame)->payload, "text");
  EXPECT_EQ(peek_type(bytes), number(Reserved::hello));
  EXPECT_EQ(peek_type("short"), std::nullopt);
}

TEST(PlainFrame, IsSmallAndFirst) {
  std::string_view http = "GET / HTTP/1.1\r\nHost: n1\r\n\r\n";
  EXPECT_FALSE(take_plain(http));
  std::string later = plain_frame(Reserved::hello, "text");
  later[13] = 1;  // the sequence's last byte
  std::string_view view = later;
  const auto frame = take_plain(view);
  ASSERT_FALSE(frame);
  EXPECT_THAT(frame.error().text(), HasSubstr("number 1, expected 0"));
}

TEST(Secret, GoesThroughHexAndNothingElse) {
  const Secret secret = *Secret::random();
  const auto back = Secret::from_hex(secret.hex());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->hex(), secret.hex());
  EXPECT_NE(Secret::random()->hex(), secret.hex());
  EXPECT_FALSE(Secret::from_hex(""));
  EXPECT_FALSE(Secret::from_hex(secret.hex().substr(1)));
  EXPECT_FALSE(Secret::from_hex(std::string(64, 'g')));
}

}  // namespace
}  // namespace nccl_check::rendezvous
