#include "job/rendezvous/server.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>

#include "support.hpp"

namespace nccl_check::rendezvous {
namespace {

using test::fake;
using test::Raw;
using test::Talk;
using test::World;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Event::Kind;
using State = Client::State;

// The coordinator of job 8000 on n1, n2, n3, with what a node needs to come to it.
class ServerTest : public testing::Test {
 protected:
  void start(Limits limits = {}, uid_t accepted = 0) {
    ServerSetup setup{test::a_job(), ports, {"n1", "n2", "n3"}, accepted, limits};
    auto own = fake(world, accepted, accepted);
    credentials = own.get();
    auto made = Server::listen(setup, std::move(own));
    ASSERT_TRUE(made) << made.error().text();
    server.emplace(std::move(*made));
    talk.server = &*server;
  }

  ClientSetup client_setup(const std::string& node) {
    return {test::a_job(), ports, node, "n1", {"127.0.0.1"}, "hello of " + node};
  }

  Client client(const std::string& node) {
    return std::move(*Client::start(client_setup(node), fake(world), Deadline::in(Milliseconds(4000))));
  }

  // A node made by hand: its credential, its channel, its first bytes.
  struct Crafted {
    Hello hello;
    std::string credential;
    Channel channel;
    std::string hello_frame;
    std::string join_frame;
  };
  Crafted craft(const std::string& node, const std::function<void(Hello&)>& change = {}, uid_t uid = 0,
                uid_t for_uid = 0) {
    Hello hello{protocol_version, test::a_job(), node, server->port(), *Secret::random()};
    if (change) change(hello);
    auto maker = fake(world, uid, for_uid);
    maker->make(0, credential_payload(hello));
    const std::string credential = maker->answers().front().text;
    Crafted crafted{hello, credential, test::channel(hello.secret, Direction::to_root), "", ""};
    crafted.hello_frame = plain_frame(Reserved::hello, hello_text(credential));
    EXPECT_TRUE(crafted.channel.seal(number(Reserved::join), "hello of " + node, crafted.join_frame));
    return crafted;
  }

  // The one refusal that follows, as the log gets it.
  std::string refusal() {
    const auto before = talk.of(Kind::refused).size();
    if (!talk.until([&] { return talk.of(Kind::refused).size() > before; })) return "nobody was refused";
    return talk.of(Kind::refused).back().why;
  }

  // What the coordinator answers to a hello.
  static Refusal told(Channel& channel, std::string_view bytes, bool signed_by_root) {
    auto frame = signed_by_root ? channel.take(bytes) : take_plain(bytes);
    EXPECT_TRUE(frame && *frame);
    if (!frame || !*frame) return {};
    EXPECT_EQ((*frame)->type, number(signed_by_root ? Reserved::refused : Reserved::refused_plain));
    return parse_refusal_text((*frame)->payload).value_or(Refusal{});
  }

  World world;
  PortRange ports = test::free_ports();
  std::optional<Server> server;
  test::FakeCredentials* credentials = nullptr;
  Talk talk;
};

TEST_F(ServerTest, NodesJoinAndTalkBothWays) {
  start();
  Client n1 = client("n1");
  Client n3 = client("n3");
  talk.clients = {&n1, &n3};
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::joined).size() == 2; }));
  EXPECT_TRUE(server->joined(0));
  EXPECT_FALSE(server->joined(1));
  EXPECT_TRUE(server->joined(2));
  for (const auto& event : talk.of(Kind::joined))
    EXPECT_EQ(event.payload, event.node == 0 ? "hello of n1" : "hello of n3");
  EXPECT_EQ(n1.address(), "127.0.0.1:" + std::to_string(server->port()));

  for (std::uint16_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(n3.send(i, std::string(i * 10'000, 'x')));
    ASSERT_TRUE(server->send(2, static_cast<std::uint16_t>(i + 10), std::string(i * 50'000, 'y')));
  }
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::message).size() == 5 && talk.frames[1].size() == 5; }));
  for (std::uint16_t i = 0; i < 5; ++i) {
    const Event event = talk.of(Kind::message)[i];
    EXPECT_EQ(event.node, 2);
    EXPECT_EQ(event.type, i);
    EXPECT_EQ(event.payload, std::string(i * 10'000, 'x'));
    EXPECT_EQ(talk.frames[1][i].type, i + 10);
    EXPECT_EQ(talk.frames[1][i].payload, std::string(i * 50'000, 'y'));
  }
  EXPECT_TRUE(talk.frames[0].empty());
  EXPECT_EQ(server->refusals(), 0U);
}

TEST_F(ServerTest, TheLargestMessagesGoThroughAndLargerOnesAreNotSent) {
  start();
  Client n2 = client("n2");
  talk.clients = {&n2};
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  ASSERT_TRUE(n2.send(1, std::string(most_to_root, 'x')));
  ASSERT_TRUE(server->send(1, 1, std::string(most_to_node, 'y')));
  EXPECT_FALSE(n2.send(1, std::string(most_to_root + 1, 'x')));
  EXPECT_FALSE(server->send(1, 1, std::string(most_to_node + 1, 'y')));
  EXPECT_FALSE(n2.send(first_reserved, "x"));
  EXPECT_FALSE(server->send(1, first_reserved, "y"));
  EXPECT_FALSE(server->send(0, 1, "y"));  // not there
  EXPECT_FALSE(server->send(-1, 1, "y"));
  EXPECT_FALSE(server->send(3, 1, "y"));
  ASSERT_TRUE(n2.send(2, "after"));
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::message).size() == 2 && talk.frames[0].size() == 1; }));
  EXPECT_EQ(talk.of(Kind::message)[0].payload.size(), most_to_root);
  EXPECT_EQ(talk.of(Kind::message)[1].payload, "after");
}

TEST_F(ServerTest, ANodeThatGoesIsNamedAndStaysGone) {
  start();
  {
    Client n2 = client("n2");
    talk.clients = {&n2};
    ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
    talk.clients.clear();
  }
  ASSERT_TRUE(talk.until([&] { return !talk.of(Kind::left).empty(); }));
  EXPECT_EQ(talk.of(Kind::left)[0].node, 1);
  EXPECT_EQ(talk.of(Kind::left)[0].why, "closed its connection");
  EXPECT_FALSE(server->joined(1));
  EXPECT_FALSE(server->send(1, 1, "x"));
  Client again = client("n2");
  talk.clients = {&again};
  ASSERT_TRUE(talk.until([&] { return again.state() == State::failed; }));
  EXPECT_THAT(again.error().text(), HasSubstr("n2 was there and has left"));
}

TEST_F(ServerTest, ANodeThatIsResetIsNamed) {
  start();
  Raw raw(server->port());
  auto n2 = craft("n2");
  ASSERT_TRUE(raw.send(n2.hello_frame + n2.join_frame));
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  raw.reset();
  ASSERT_TRUE(talk.until([&] { return !talk.of(Kind::left).empty(); }));
  EXPECT_EQ(talk.of(Kind::left)[0].why, "Connection reset by peer");
}

TEST_F(ServerTest, ACloseOfOursEndsTheNode) {
  start();
  Client n2 = client("n2");
  talk.clients = {&n2};
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  server->close(1);
  server->close(0);  // never came; may not come any more
  ASSERT_TRUE(talk.until([&] { return n2.state() == State::failed; }));
  EXPECT_THAT(n2.error().text(),
              HasSubstr("n1 (127.0.0.1:" + std::to_string(server->port()) + "): closed the connection"));
  Client n1 = client("n1");
  talk.clients = {&n1};
  ASSERT_TRUE(talk.until([&] { return n1.state() == State::failed; }));
  EXPECT_TRUE(talk.of(Kind::left).empty());
}

// ---- who is not let in

TEST_F(ServerTest, RefusesWhatIsNotOfThisJobAndSignsIt) {
  start();
  const std::pair<std::function<void(Hello&)>, const char*> cases[] = {
      {[](Hello& h) { h.job.job = 8001; }, "it comes for job 8001, this is the root of job 8000"},
      {[](Hello& h) { h.job.step = 0; }, "it comes for job 8000 step 0, this is the root of job 8000"},
      {[](Hello& h) { h.job.restart = 2; }, "it comes for job 8000, restart 2, this is the root of job 8000"},
      {[](Hello& h) { h.job.cluster = "daint"; },
       "it comes for cluster 'daint', this is the root of job 8000 of cluster 'alps'"},
      {[](Hello& h) { h.protocol = 2; }, "it speaks protocol 2, the root speaks 1"},
      {[](Hello& h) { h.node = "n9"; }, "n9 is not a node of job 8000"},
      {[](Hello& h) { h.port = 1; }, "its credential was sent to port 1, and comes to port"},
  };
  for (const auto& [change, why] : cases) {
    Raw raw(server->port());
    auto crafted = craft("n2", change);
    ASSERT_TRUE(raw.send(crafted.hello_frame));
    EXPECT_THAT(refusal(), testing::AllOf(HasSubstr(why), HasSubstr("127.0.0.1:")));
    EXPECT_THAT(told(crafted.channel, raw.receive_all(), true).reason, HasSubstr(why));
  }
  EXPECT_FALSE(server->joined(1));
}

TEST_F(ServerTest, RefusesAnotherUsersCredential) {
  start();
  auto crafted = craft("n2", {}, 1000);
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(crafted.hello_frame));
  EXPECT_THAT(refusal(), HasSubstr("its credential is uid 1000's, only uid 0's are taken"));
  EXPECT_EQ(told(crafted.channel, raw.receive_all(), true).code, Refusal::Code::uid);
}

TEST_F(ServerTest, TakesTheUsersOwnForAStep) {
  start({}, 1000);
  auto good = craft("n2", {}, 1000, 1000);
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(good.hello_frame + good.join_frame));
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  auto for_root = craft("n3", {}, 1000, 0);
  Raw other(server->port());
  ASSERT_TRUE(other.send(for_root.hello_frame));
  EXPECT_THAT(refusal(), HasSubstr("cannot open its credential: Unauthorized credential"));
}

TEST_F(ServerTest, RefusesACopyOfAHelloAndTheNodeItselfComesIn) {
  start();
  auto n2 = craft("n2");
  Raw first(server->port());
  ASSERT_TRUE(first.send(n2.hello_frame));  // whoever this is: without the secret it gets no further
  ASSERT_TRUE(talk.until([&] { return credentials->asked == 1; }));
  Raw copy(server->port());
  ASSERT_TRUE(copy.send(n2.hello_frame));
  EXPECT_THAT(refusal(), HasSubstr("a copy of a credential of n2 that was used before"));
  EXPECT_FALSE(server->joined(1));
  Client real = client("n2");
  talk.clients = {&real};
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  ASSERT_TRUE(first.send(n2.join_frame));  // even with it, the place is taken
  EXPECT_THAT(refusal(), HasSubstr("n2 is there already"));
  EXPECT_TRUE(server->joined(1));
}

TEST_F(ServerTest, RefusesASecondNodeOfTheSameName) {
  start();
  Client n2 = client("n2");
  talk.clients = {&n2};
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  Client second = client("n2");
  talk.clients.push_back(&second);
  ASSERT_TRUE(talk.until([&] { return second.state() == State::failed; }));
  EXPECT_THAT(second.error().text(), HasSubstr("n2 is there already"));
  ASSERT_TRUE(n2.send(1, "still here"));
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::message).size() == 1; }));
}

TEST_F(ServerTest, NamesAClockThatIsOff) {
  start();
  credentials->problem = Answer::Problem::expired;
  credentials->opened_at += 300;
  auto n2 = craft("n2");
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(n2.hello_frame));
  const char* why =
      "the clock of n2 is 300 s behind the root's, too far: it was 2023-11-14 22:13:20 UTC there and "
      "2023-11-14 22:18:20 UTC here";
  EXPECT_THAT(refusal(), HasSubstr(why));
  EXPECT_THAT(told(n2.channel, raw.receive_all(), true).reason, HasSubstr(why));
}

TEST_F(ServerTest, RefusesWhoDoesNotKnowTheSecret) {
  start();
  auto n2 = craft("n2");
  auto n3 = craft("n3");
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(n2.hello_frame + n3.join_frame));
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("n2 (127.0.0.1:"), HasSubstr("message 0 is not signed")));
  EXPECT_FALSE(server->joined(1));
}

TEST_F(ServerTest, RefusesAnythingElseAsAFirstMessage) {
  start();
  auto n2 = craft("n2");
  std::string too_long(header_bytes, '\0');
  too_long[2] = 0x10;
  too_long[3] = 0x01;  // 4097
  const std::pair<std::string, const char*> cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", "at most 4096 are taken"},
      {too_long, "a message of 4097 bytes, at most 4096 are taken"},
      {n2.join_frame, "its first message is of type 0xff03"},
      {plain_frame(Reserved::hello, "SSH-2.0"), "its first message begins 'SSH-2.0'"},
      {plain_frame(Reserved::hello, hello_text("rubbish")), "cannot open its credential: Invalid credential"},
      {plain_frame(Reserved::hello, hello_text("")), "has no credential"},
      {n2.hello_frame + n2.hello_frame + std::string(32, 'x'), "message 0 is not signed"},
  };
  for (const auto& [bytes, why] : cases) {
    Raw raw(server->port());
    ASSERT_TRUE(raw.send(bytes));
    EXPECT_THAT(refusal(), testing::ContainsRegex(why));
  }
}

TEST_F(ServerTest, RefusesToJoinBeforeTheCredentialIsOpened) {
  start();
  credentials->frozen = true;
  auto n2 = craft("n2");
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(n2.hello_frame + n2.join_frame));
  EXPECT_THAT(refusal(), HasSubstr("spoke out of turn"));
}

// ---- a session that is disturbed: the bytes of a node, and what the root makes of them

class DisturbedSession : public ServerTest {
 protected:
  struct Outcome {
    std::size_t joined = 0;
    std::size_t messages = 0;
    std::vector<std::string> left;
    std::vector<std::string> refused;
  };
  Outcome of(const std::string& bytes) {
    Outcome outcome;
    talk.events.clear();
    Raw raw(server->port());
    EXPECT_TRUE(raw.send(bytes));
    raw.close();
    EXPECT_TRUE(talk.until([&] { return !talk.of(Kind::left).empty() || !talk.of(Kind::refused).empty(); }));
    outcome.joined = talk.of(Kind::joined).size();
    outcome.messages = talk.of(Kind::message).size();
    for (const auto& event : talk.of(Kind::left)) outcome.left.push_back(event.why);
    for (const auto& event : talk.of(Kind::refused)) outcome.refused.push_back(event.why);
    return outcome;
  }
};

TEST_F(DisturbedSession, CutOffAtEveryByteItIsRefusedOrHasLeft) {
  Limits limits;
  limits.refusals_told = 100'000;
  start(limits);
  const std::size_t total = [&] {
    auto n2 = craft("n2");
    return n2.hello_frame.size() + n2.join_frame.size();
  }();
  for (std::size_t length = 0; length < total + 100; ++length) {
    start(limits);
    auto n2 = craft("n2");
    std::string bytes = n2.hello_frame + n2.join_frame;
    const std::size_t joined_at = bytes.size();
    ASSERT_TRUE(n2.channel.seal(1, "first message", bytes));
    const std::size_t message_at = bytes.size();
    ASSERT_TRUE(n2.channel.seal(2, "second", bytes));
    if (length >= bytes.size()) break;
    const auto outcome = of(bytes.substr(0, length));
    EXPECT_EQ(outcome.joined, length >= joined_at ? 1U : 0U) << length;
    EXPECT_EQ(outcome.messages, length >= message_at ? 1U : 0U) << length;
    const bool whole =
        length == 0 || length == n2.hello_frame.size() || length == joined_at || length == message_at;
    const char* why = whole ? "closed its connection" : "closed its connection within a message";
    if (length < joined_at) {
      ASSERT_EQ(outcome.refused.size(), 1U) << length;
      EXPECT_THAT(outcome.refused[0], testing::EndsWith(why)) << length;
    } else {
      EXPECT_THAT(outcome.left, ElementsAre(why)) << length;
    }
  }
}

TEST_F(DisturbedSession, ComingByteByByteItIsWhole) {
  start();
  auto n2 = craft("n2");
  std::string bytes = n2.hello_frame + n2.join_frame;
  ASSERT_TRUE(n2.channel.seal(1, "message", bytes));
  Raw raw(server->port());
  for (const char byte : bytes) {
    ASSERT_TRUE(raw.send({&byte, 1}));
    for (auto& event : server->poll(Deadline::in(Milliseconds(0)))) talk.events.push_back(std::move(event));
  }
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::message).size() == 1; }));
}

TEST_F(DisturbedSession, ReplayedReorderedForgedAndOversizedMessagesEndIt) {
  const std::pair<std::function<std::string(Crafted&)>, const char*> cases[] = {
      {[](Crafted& n) {
         std::string m;
         EXPECT_TRUE(n.channel.seal(1, "m", m));
         return m + m;
       },
       "a message out of order or repeated: number 1, expected 2"},
      {[](Crafted& n) {
         std::string a;
         std::string b;
         EXPECT_TRUE(n.channel.seal(1, "a", a));
         EXPECT_TRUE(n.channel.seal(1, "b", b));
         return b + a;
       },
       "number 2, expected 1"},
      {[](Crafted& n) { return n.join_frame; }, "number 0, expected 1"},
      {[](Crafted& n) {
         std::string m;
         EXPECT_TRUE(n.channel.seal(1, "m", m));
         m.back() = static_cast<char>(m.back() + 1);
         return m;
       },
       "message 1 is not signed with the node's secret"},
      {[](Crafted&) { return plain_frame(Reserved::hello, "again") + std::string(32, 'x'); },
       "number 0, expected 1"},
      {[](Crafted&) { return std::string(header_bytes, '\x01'); }, "at most 65536 are taken"},
      {[](Crafted& n) {
         std::string m;
         EXPECT_TRUE(n.channel.seal(number(Reserved::join), "m", m));
         return m;
       },
       "a message of the unknown type 0xff03"},
  };
  for (const auto& [tail, why] : cases) {
    start();
    auto n2 = craft("n2");
    const auto outcome = of(n2.hello_frame + n2.join_frame + tail(n2));
    EXPECT_EQ(outcome.joined, 1U);
    ASSERT_EQ(outcome.left.size(), 1U) << why;
    EXPECT_THAT(outcome.left[0], HasSubstr(why));
    EXPECT_FALSE(server->joined(1));
  }
}

// ---- strangers

TEST_F(ServerTest, SilentStrangersHaveLittleTime) {
  Limits limits;
  limits.silent = Milliseconds(200);
  start(limits);
  Raw silent(server->port());
  Raw half(server->port());
  ASSERT_TRUE(half.send(craft("n2").hello_frame.substr(0, 30)));
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::refused).size() == 2; }, Milliseconds(3000)));
  for (const auto& event : talk.of(Kind::refused))
    EXPECT_THAT(event.why, HasSubstr("no whole hello within 0.2 s"));
  EXPECT_THAT(silent.receive_all(), HasSubstr("no whole hello"));
}

TEST_F(ServerTest, AWelcomeWithoutAJoinHasLittleTime) {
  Limits limits;
  limits.handshake = Milliseconds(200);
  start(limits);
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(craft("n2").hello_frame));
  EXPECT_THAT(refusal(), HasSubstr("did not join within 0.2 s"));
}

TEST_F(ServerTest, AFrozenServiceHoldsUpNobodyElse) {
  Limits limits;
  limits.handshake = Milliseconds(1500);
  start(limits);
  Client n1 = client("n1");
  talk.clients = {&n1};
  ASSERT_TRUE(talk.until([&] { return server->joined(0); }));
  credentials->frozen = true;
  auto n2 = craft("n2");
  Raw raw(server->port());
  ASSERT_TRUE(raw.send(n2.hello_frame));
  ASSERT_TRUE(talk.until([&] { return credentials->asked == 2; }));
  ASSERT_TRUE(n1.send(1, "still here"));
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::message).size() == 1; }, Milliseconds(1000)));
  const auto start_time = Clock::now();
  EXPECT_TRUE(server->poll(Deadline::in(Milliseconds(50))).empty());
  EXPECT_LT(Clock::now() - start_time, Milliseconds(400));
  EXPECT_THAT(refusal(), HasSubstr("fake munged at the root has not opened its credential within 1.5 s"));
  EXPECT_EQ(told(n2.channel, raw.receive_all(), false).code, Refusal::Code::unavailable);
  EXPECT_TRUE(server->joined(0));
}

TEST_F(ServerTest, OneHostCannotTakeAllPlaces) {
  Limits limits;
  limits.same_host = 3;
  start(limits);
  std::vector<std::unique_ptr<Raw>> strangers;
  for (int i = 0; i < 10; ++i) strangers.push_back(std::make_unique<Raw>(server->port()));
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::refused).size() == 7; }));
  EXPECT_THAT(talk.of(Kind::refused)[0].why, HasSubstr("more than 3 connections of its host"));
}

TEST_F(ServerTest, ManyStrangersDoNotKeepNodesOut) {
  Limits limits;
  limits.strangers = 8;
  limits.same_host = 10'000;
  limits.refusals_told = 5;
  start(limits);
  std::vector<std::unique_ptr<Raw>> strangers;
  const auto more = [&](int count) {
    for (int i = 0; i < count; ++i) {
      strangers.push_back(std::make_unique<Raw>(server->port()));
      if (i % 3 == 0) {
        ASSERT_TRUE(strangers.back()->send("half"));
      }
    }
  };
  more(200);
  Client n2 = client("n2");
  talk.clients = {&n2};
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }, Milliseconds(3000)));
  more(200);
  ASSERT_TRUE(n2.send(1, "through"));
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::message).size() == 1; }));
  EXPECT_TRUE(talk.of(Kind::left).empty());
  EXPECT_EQ(talk.of(Kind::refused).size(), 5U);  // what can fill a log is bounded
  EXPECT_THAT(talk.of(Kind::refused)[0].why, HasSubstr("said nothing, and its place was needed"));
  EXPECT_GT(server->refusals(), 150U);
}

TEST_F(ServerTest, WithAllPlacesWaitingForUsNewcomersWaitAndGetTheirTurn) {
  Limits limits;
  limits.strangers = 1;  // 4 places
  limits.handshake = Milliseconds(300);
  start(limits);
  credentials->frozen = true;
  std::vector<std::unique_ptr<Raw>> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(std::make_unique<Raw>(server->port()));
    ASSERT_TRUE(waiting.back()->send(craft("n3").hello_frame));
  }
  ASSERT_TRUE(talk.until([&] { return credentials->asked == 4; }));
  Raw newcomer(server->port());
  auto n2 = craft("n2");
  ASSERT_TRUE(newcomer.send(n2.hello_frame + n2.join_frame));
  // It waits at the door, and the epoll rests meanwhile.
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_FALSE(talk.until([&] { return credentials->asked > 4; }, Milliseconds(150)));
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT((after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1'000'000 + after.ru_utime.tv_usec -
                before.ru_utime.tv_usec,
            100'000);
  credentials->frozen = false;
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
}

// ---- sending

TEST_F(ServerTest, ANodeThatTakesNothingIsDropped) {
  Limits limits;
  limits.waiting = 300'000;
  start(limits);
  Raw raw(server->port());
  auto n2 = craft("n2");
  ASSERT_TRUE(raw.send(n2.hello_frame + n2.join_frame));
  ASSERT_TRUE(talk.until([&] { return server->joined(1); }));
  EXPECT_TRUE(server->flush(Deadline::in(Milliseconds(0))));
  bool dropped = false;
  for (int i = 0; i < 200 && !dropped; ++i) dropped = !server->send(1, 1, std::string(most_to_node, 'x'));
  ASSERT_TRUE(dropped);
  ASSERT_TRUE(talk.until([&] { return !talk.of(Kind::left).empty(); }));
  EXPECT_THAT(talk.of(Kind::left)[0].why, HasSubstr("does not take its messages"));
  EXPECT_TRUE(server->flush(Deadline::in(Milliseconds(0))));  // nothing is owed to it any more
}

TEST_F(ServerTest, FlushNamesWhoDoesNotTakeWhatWasSent) {
  Limits limits;
  limits.waiting = 100U << 20U;
  start(limits);
  Raw raw(server->port());
  auto n2 = craft("n2");
  ASSERT_TRUE(raw.send(n2.hello_frame + n2.join_frame));
  Client n3 = client("n3");
  talk.clients = {&n3};
  ASSERT_TRUE(talk.until([&] { return server->joined(1) && server->joined(2); }));
  constexpr int count = 60;
  for (int i = 0; i < count; ++i) ASSERT_TRUE(server->send(1, 1, std::string(most_to_node, 'x')));
  ASSERT_TRUE(server->send(2, 1, "x"));
  const auto start_time = Clock::now();
  const auto flushed = server->flush(Deadline::in(Milliseconds(100)));
  EXPECT_LT(Clock::now() - start_time, Milliseconds(300));
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().text(), "job 8000: n2 did not take all that was sent to them");
  // It takes it all after all, and all of it is good.
  std::string all;
  const std::size_t expected = header_bytes + mac_bytes + count * (header_bytes + most_to_node + mac_bytes);
  while (all.size() < expected) {
    server->poll(Deadline::in(Milliseconds(0)));
    const auto some = raw.receive_some();
    ASSERT_FALSE(some.empty());
    all += some;
  }
  EXPECT_TRUE(server->flush(Deadline::in(Milliseconds(1000))));
  std::string_view view = all;
  int frames = 0;
  while (!view.empty()) {
    auto frame = n2.channel.take(view);
    ASSERT_TRUE(frame && *frame);
    ++frames;
  }
  EXPECT_EQ(frames, count + 1);
}

TEST_F(ServerTest, FinishLosesNoLastMessage) {
  start();
  std::vector<Client> nodes;
  for (const char* name : {"n1", "n2", "n3"}) nodes.push_back(client(name));
  for (auto& node : nodes) talk.clients.push_back(&node);
  ASSERT_TRUE(talk.until([&] { return talk.of(Kind::joined).size() == 3; }));
  // Each node has said something that the root never reads: a plain close would reset their connections.
  for (auto& node : nodes) ASSERT_TRUE(node.send(1, std::string(60'000, 'x')));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(server->send(i, 5, std::string(200'000, 'v')));
  const auto finished = server->finish(Deadline::in(Milliseconds(100)));  // the nodes are not reading yet
  server.reset();
  talk.server = nullptr;
  ASSERT_TRUE(talk.until([&] {
    for (const auto& node : nodes)
      if (node.state() != State::failed) return false;
    return true;
  }));
  for (const auto& frames : talk.frames) {
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].payload.size(), 200'000U);
  }
  EXPECT_TRUE(finished);
}

// ---- listening

TEST_F(ServerTest, TakesTheNextPortWhereOthersListen) {
  const auto first = ports.first;
  test::Squatter one(first);
  test::Squatter two(static_cast<std::uint16_t>(first + 1));
  ASSERT_TRUE(one.good() && two.good());
  start();
  EXPECT_EQ(server->port(), first + 2);
}

TEST_F(ServerTest, SaysWhichPortsItTried) {
  std::vector<std::unique_ptr<test::Squatter>> all;
  for (int i = 0; i < most_ports; ++i)
    all.push_back(std::make_unique<test::Squatter>(static_cast<std::uint16_t>(ports.first + i)));
  const auto made = Server::listen({test::a_job(), ports, {"n1"}, 0, {}}, fake(world));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(),
              testing::AllOf(HasSubstr("job 8000: no port to listen on: "),
                             HasSubstr(std::to_string(ports.last) + " (Address already in use)"),
                             HasSubstr("widen the range")));
}

TEST_F(ServerTest, RefusesANodeListWithRepetitions) {
  const auto made = Server::listen({test::a_job(), ports, {"n1", "n2", "n1"}, 0, {}}, fake(world));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("the node n1 is named twice"));
}

TEST_F(ServerTest, RaisesTheLimitOfOpenFilesOrSaysWhy) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<std::string> nodes;
  for (int i = 0; i < 3000; ++i) nodes.push_back("n" + std::to_string(i));
  rlimit low{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto made = Server::listen({test::a_job(), ports, nodes, 0, {}}, fake(world));
  rlimit after{};
  ::getrlimit(RLIMIT_NOFILE, &after);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_GE(after.rlim_cur, 6000U);
}

TEST_F(ServerTest, PollReturnsByItsDeadline) {
  start();
  const auto start_time = Clock::now();
  EXPECT_TRUE(server->poll(Deadline::in(Milliseconds(60))).empty());
  EXPECT_GE(Clock::now() - start_time, Milliseconds(60));
  EXPECT_LT(Clock::now() - start_time, Milliseconds(500));
}

}  // namespace
}  // namespace nccl_check::rendezvous
