#include "job/rendezvous/client.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>

#include <thread>

#include "support.hpp"

namespace nccl_check::rendezvous {
namespace {

using test::fake;
using test::Raw;
using test::Squatter;
using test::Talk;
using test::World;
using testing::HasSubstr;
using State = Client::State;

class ClientTest : public testing::Test {
 protected:
  ClientSetup setup(std::vector<std::string> addresses = {"127.0.0.1"}) {
    return {test::a_job(), ports, "n3", "n1", std::move(addresses), "hello of n3"};
  }
  Client start(ClientSetup with, Clock::duration time = Milliseconds(5000)) {
    auto own = fake(world);
    credentials = own.get();
    auto made = Client::start(std::move(with), std::move(own), Deadline::in(time));
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  Server listen(const JobIdentity& job, PortRange range) {
    auto made = Server::listen({job, range, {"n1", "n3"}, 0, {}}, fake(world));
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  [[nodiscard]] std::uint16_t port(int i) const { return static_cast<std::uint16_t>(ports.first + i); }
  [[nodiscard]] std::string port_text(int i) const { return std::to_string(port(i)); }

  World world;
  PortRange ports = test::free_ports();
  test::FakeCredentials* credentials = nullptr;
};

TEST_F(ClientTest, FindsARootThatStartsLater) {
  Client client = start(setup());
  Talk talk{nullptr, {&client}, {}, {}};
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_FALSE(talk.until([&] { return client.state() != State::joining; }, Milliseconds(1000)));
  ::getrusage(RUSAGE_SELF, &after);
  const auto cpu =
      (after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec - before.ru_stime.tv_sec) *
          1'000'000 +
      after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec - before.ru_stime.tv_usec;
  EXPECT_LT(cpu, 50'000) << "microseconds of CPU in a second of waiting";
  Server server = listen(test::a_job(), ports);
  talk.server = &server;
  ASSERT_TRUE(
      talk.until([&] { return client.state() == State::joined && server.joined(1); }, Milliseconds(1500)));
  EXPECT_EQ(credentials->asked, 1);  // nothing was made for ports where nobody listened
}

TEST_F(ClientTest, PassesAnotherJobsRootByAndFindsItsOwn) {
  // The other job's root took the port that is first for both.
  Server other = listen({"alps", 16'000, no_step, 0}, ports);
  ASSERT_EQ(other.port(), ports.first);
  Server server = listen(test::a_job(), ports);
  ASSERT_EQ(server.port(), ports.first + 1);
  Client client = start(setup());
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until(
      [&] {
        other.poll(Deadline::in(Milliseconds(0)));
        return server.joined(1);
      },
      Milliseconds(4000)));
  EXPECT_EQ(client.address(), "127.0.0.1:" + port_text(1));
}

TEST_F(ClientTest, PassesAnotherRestartOfItsOwnJobBy) {
  JobIdentity earlier = test::a_job();
  JobIdentity later = earlier;
  later.restart = 1;
  Server old = listen(earlier, ports);
  Server server = listen(later, ports);
  auto with = setup();
  with.job = later;
  Client client = start(with);
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] {
    old.poll(Deadline::in(Milliseconds(0)));
    return server.joined(1);
  }));
}

TEST_F(ClientTest, PassesASilentListenerBy) {
  Squatter squatter(port(0));
  Server server = listen(test::a_job(), ports);
  Client client = start(setup());
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }, Milliseconds(4000)));
  EXPECT_EQ(client.address(), "127.0.0.1:" + port_text(1));
}

TEST_F(ClientTest, FindsItsRootOnALaterPortAlsoWhereTheEarlierOneIsFreeAgain) {
  std::optional<Squatter> squatter(port(0));
  Server server = listen(test::a_job(), ports);
  squatter.reset();
  Client client = start(setup());
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }, Milliseconds(4000)));
}

// Whoever listens at the first port, with whatever answer: the root behind it is found, and nothing else is
// believed.
TEST_F(ClientTest, BelievesNobodyWhoDoesNotKnowTheSecret) {
  const Secret other = *Secret::random();
  Channel impostor = test::channel(other, Direction::to_node);
  std::string welcome;
  std::string refusal;
  ASSERT_TRUE(impostor.seal(number(Reserved::welcome), "", welcome));
  Channel second = test::channel(other, Direction::to_node);
  ASSERT_TRUE(second.seal(number(Reserved::refused),
                          refusal_text({Refusal::Code::already_there, "n3 is there already"}), refusal));
  const std::string answers[] = {
      welcome,
      refusal,
      plain_frame(Reserved::welcome, ""),
      plain_frame(Reserved::refused_plain, refusal_text({Refusal::Code::clock, "your clock is off"})),
      plain_frame(Reserved::refused_plain, "nonsense"),
      std::string(header_bytes, '\xff'),
      "HTTP/1.1 400 Bad Request\r\n\r\n",
      std::string(header_bytes, '\0') + std::string(100, '\0'),
      std::string(300'000, '\0'),
      "",
  };
  for (const auto& answer : answers) {
    ports = test::free_ports();
    Squatter squatter(port(0));
    Server server = listen(test::a_job(), ports);
    Client client = start(setup());
    Talk talk{&server, {&client}, {}, {}};
    ASSERT_TRUE(talk.until([&] { return squatter.asked(); }));
    Raw raw = squatter.accept();
    ASSERT_TRUE(talk.until([&] { return credentials->asked == 1; }));
    EXPECT_THAT(raw.receive_some(), HasSubstr("nccl-check\nFAKE:"));
    ASSERT_TRUE(raw.send(answer));
    raw.close();
    ASSERT_TRUE(talk.until([&] { return server.joined(1); }, Milliseconds(4000)))
        << testing::PrintToString(answer);
    EXPECT_EQ(client.state(), State::joined);
  }
}

TEST_F(ClientTest, AListenerThatPassesTheHelloOnGainsNothing) {
  Squatter squatter(port(0));
  Server server = listen(test::a_job(), ports);
  Client client = start(setup());
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return squatter.asked(); }));
  Raw raw = squatter.accept();
  ASSERT_TRUE(talk.until([&] { return credentials->asked == 1; }));
  const std::string hello = raw.receive_some();
  Raw to_root(server.port());
  ASSERT_TRUE(to_root.send(hello));
  ASSERT_TRUE(talk.until([&] { return !talk.of(Event::Kind::refused).empty(); }));
  EXPECT_THAT(
      talk.of(Event::Kind::refused)[0].why,
      HasSubstr("its credential was sent to port " + port_text(0) + ", and comes to port " + port_text(1)));
  ASSERT_TRUE(raw.send(to_root.receive_all()));  // and the root's signed word back
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }));
  EXPECT_EQ(client.address(), "127.0.0.1:" + port_text(1));
}

TEST_F(ClientTest, SaysAtTheEndWhatItFoundOnEachPort) {
  Server other = listen({"alps", 16'000, no_step, 0}, ports);  // port 0
  Squatter silent(port(1));
  Client client = start(setup({"127.0.0.1", "127.0.0.9"}), Milliseconds(1800));
  Talk talk{&other, {&client}, {}, {}};
  const auto start_time = Clock::now();
  ASSERT_TRUE(talk.until([&] { return client.state() == State::failed; }));
  EXPECT_LT(Clock::now() - start_time, Milliseconds(2200));
  const std::string text = client.error().text();
  EXPECT_THAT(text, HasSubstr("n1: the root of job 8000 was not reached within 1.8 s"));
  EXPECT_THAT(text,
              HasSubstr("port " + port_text(0) +
                        " of 127.0.0.1: refused: it comes for job 8000, this is the root of job 16000"));
  EXPECT_THAT(text, HasSubstr("port " + port_text(1) +
                              " of 127.0.0.1: somebody listened, and has not answered for "));
  EXPECT_THAT(text, HasSubstr("127.0.0.1: nobody listened"));
  EXPECT_TRUE(client.advance().empty());
  EXPECT_FALSE(client.send(1, "x"));
}

TEST_F(ClientTest, SaysThatNobodyListened) {
  Client client = start(setup(), Milliseconds(300));
  client.wait(Deadline::in(Milliseconds(4000)));
  ASSERT_EQ(client.state(), State::failed);
  EXPECT_EQ(client.error().text(), "n1: the root of job 8000 was not reached within 0.3 s: port " +
                                       port_text(0) + " of 127.0.0.1: nobody listened");
}

TEST_F(ClientTest, GivesUpAtOnceOnTheRootsOwnWord) {
  Server server = listen(test::a_job(), ports);
  auto with = setup();
  with.node = "n7";
  Client client = start(with);
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return client.state() == State::failed; }, Milliseconds(4000)));
  EXPECT_EQ(client.error().text(), "n1 (127.0.0.1:" + port_text(0) + "): n7 is not a node of job 8000");
}

TEST_F(ClientTest, KeepsItsDeadlineWhereItsServiceIsFrozen) {
  Server server = listen(test::a_job(), ports);
  auto own = fake(world);
  own->frozen = true;
  auto made = Client::start(setup(), std::move(own), Deadline::in(Milliseconds(1300)));
  ASSERT_TRUE(made);
  Client client = std::move(*made);
  Talk talk{&server, {&client}, {}, {}};
  const auto start_time = Clock::now();
  ASSERT_TRUE(talk.until([&] { return client.state() == State::failed; }));
  EXPECT_LT(Clock::now() - start_time, Milliseconds(1600));
  EXPECT_THAT(client.error().text(), HasSubstr("fake munged on n3 has not answered for 1."));
}

TEST_F(ClientTest, SaysWhatItsServiceSaid) {
  Server server = listen(test::a_job(), ports);
  auto own = fake(world);
  own->problem = Answer::Problem::unavailable;
  auto made = Client::start(setup(), std::move(own), Deadline::in(Milliseconds(300)));
  ASSERT_TRUE(made);
  Client client = std::move(*made);
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return client.state() == State::failed; }));
  EXPECT_THAT(client.error().text(), HasSubstr("fake munged on n3: fake trouble"));
}

TEST_F(ClientTest, JoinsOverAnyOfSeveralAddressesAndOnlyOnce) {
  Server server = listen(test::a_job(), ports);
  Client client = start(setup({"127.0.0.1", "127.0.0.2", "::1"}));
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }));
  ASSERT_TRUE(client.send(1, "x"));
  ASSERT_TRUE(talk.until([&] { return talk.of(Event::Kind::message).size() == 1; }));
  EXPECT_FALSE(
      talk.until([&] { return !talk.of(Event::Kind::left).empty() || client.state() != State::joined; },
                 Milliseconds(200)));
  EXPECT_EQ(talk.of(Event::Kind::joined).size(), 1U);
}

TEST_F(ClientTest, SpeaksIpv6) {
  Server server = listen(test::a_job(), ports);
  Client client = start(setup({"::1"}));
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }));
  EXPECT_EQ(client.address(), "[::1]:" + port_text(0));
}

TEST_F(ClientTest, AMessageThatIsNotTheRootsEndsIt) {
  // The root by hand, so that it can misbehave.
  const std::pair<std::function<std::string(Channel&)>, const char*> cases[] = {
      {[](Channel& c) {
         std::string m;
         EXPECT_TRUE(c.seal(1, "m", m));
         m[header_bytes] = 'x';
         return m;
       },
       "message 1 is not signed"},
      {[](Channel& c) {
         std::string a;
         std::string b;
         EXPECT_TRUE(c.seal(1, "a", a));
         EXPECT_TRUE(c.seal(1, "b", b));
         return b;
       },
       "number 2, expected 1"},
      {[](Channel&) { return std::string(header_bytes, '\xff'); }, "at most 262144 are taken"},
      {[](Channel& c) {
         std::string m;
         EXPECT_TRUE(c.seal(number(Reserved::refused),
                            refusal_text({Refusal::Code::already_there, "n3 is there already"}), m));
         return m;
       },
       "n3 is there already"},
      {[](Channel& c) {
         std::string m;
         EXPECT_TRUE(c.seal(0xfffe, "m", m));
         return m;
       },
       "unknown type 0xfffe"},
      {[](Channel& c) {
         std::string m;
         EXPECT_TRUE(c.seal(1, "m", m));
         return m.substr(0, m.size() - 1);
       },
       "closed the connection"},
  };
  for (const auto& [tail, why] : cases) {
    ports = test::free_ports();
    Squatter root(port(0));
    Client client = start(setup());
    Talk talk{nullptr, {&client}, {}, {}};
    ASSERT_TRUE(talk.until([&] { return root.asked(); }));
    Raw raw = root.accept();
    ASSERT_TRUE(talk.until([&] { return credentials->asked == 1; }));
    raw.receive_some();
    std::optional<Hello> hello;
    for (const auto& [text, one] : world.made) {
      auto parsed = parse_credential_payload(one.payload);
      if (parsed && parsed->port == port(0)) hello = *parsed;
    }
    ASSERT_TRUE(hello);
    Channel channel = test::channel(hello->secret, Direction::to_node);
    std::string bytes;
    ASSERT_TRUE(channel.seal(number(Reserved::welcome), "", bytes));
    bytes += tail(channel);
    ASSERT_TRUE(raw.send(std::string_view(bytes).substr(0, 20)));  // within the welcome
    EXPECT_FALSE(talk.until([&] { return client.state() != State::joining; }, Milliseconds(30)));
    ASSERT_TRUE(raw.send(std::string_view(bytes).substr(20)));
    raw.close();
    ASSERT_TRUE(talk.until([&] { return client.state() == State::failed; })) << why;
    EXPECT_THAT(client.error().text(), HasSubstr(why));
    EXPECT_TRUE(talk.frames[0].empty());
  }
}

TEST_F(ClientTest, TheLastWordIsReadThoughSendingFails) {
  Server server = listen(test::a_job(), ports);
  Client client = start(setup());
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }));
  ASSERT_TRUE(server.send(1, 7, "the verdict"));
  server.close(1);
  std::this_thread::sleep_for(Milliseconds(20));
  bool sent = true;
  for (int i = 0; i < 50 && sent; ++i) {
    sent = static_cast<bool>(client.send(1, "x"));
    std::this_thread::sleep_for(Milliseconds(1));
  }
  EXPECT_FALSE(sent);
  const auto frames = client.advance();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].payload, "the verdict");
}

TEST_F(ClientTest, FlushWaitsForTheKernelAndNoLonger) {
  Squatter root(port(0));
  Server server = listen(test::a_job(), {port(1), port(1)});
  auto with = setup();
  with.ports = {port(1), port(1)};
  Client client = start(with);
  Talk talk{&server, {&client}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return server.joined(1); }));
  ASSERT_TRUE(client.send(1, "x"));
  EXPECT_TRUE(client.flush(Deadline::in(Milliseconds(100))));
  // The root reads nothing any more: the kernel's buffers fill, then ours, then it is given up.
  bool flushed = true;
  for (int i = 0; i < 1000 && flushed; ++i) {
    ASSERT_TRUE(client.send(1, std::string(most_to_root, 'x')));
    flushed = static_cast<bool>(client.flush(Deadline::in(Milliseconds(0))));
  }
  const auto start_time = Clock::now();
  const auto late = client.flush(Deadline::in(Milliseconds(50)));
  EXPECT_LT(Clock::now() - start_time, Milliseconds(300));
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().text(), HasSubstr("bytes in time"));
  bool sent = true;
  for (int i = 0; i < 100 && sent; ++i)
    sent = static_cast<bool>(client.send(1, std::string(most_to_root, 'x')));
  EXPECT_FALSE(sent);
  EXPECT_THAT(client.error().text(), HasSubstr("does not take its messages"));
}

TEST_F(ClientTest, RefusesABadSetup) {
  const auto refused = [&](const std::function<void(ClientSetup&)>& change) -> std::string {
    auto with = setup();
    change(with);
    auto made = Client::start(with, fake(world), Deadline::in(Milliseconds(100)));
    return made ? "" : made.error().text();
  };
  EXPECT_THAT(refused([](ClientSetup& s) { s.addresses.clear(); }), HasSubstr("n1: no address is known"));
  EXPECT_THAT(refused([](ClientSetup& s) { s.addresses = {"n1.site"}; }),
              HasSubstr("'n1.site' is not an address"));
  EXPECT_THAT(refused([](ClientSetup& s) { s.ports = {9, 8}; }), HasSubstr("not a range of ports"));
  EXPECT_THAT(refused([](ClientSetup& s) { s.hello = std::string(most_to_root + 1, 'x'); }),
              HasSubstr("at most 65536"));
}

}  // namespace
}  // namespace nccl_check::rendezvous
