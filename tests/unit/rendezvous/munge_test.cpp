// Against a real munged of this test's own.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "job/rendezvous/munge_credentials.hpp"
#include "support.hpp"

namespace nccl_check::rendezvous {
namespace {

using test::Munged;
using test::Talk;
using testing::HasSubstr;
using Problem = Answer::Problem;
using State = Client::State;

std::unique_ptr<Credentials> munge(const std::string& socket, uid_t for_uid = ::geteuid(),
                                   std::chrono::seconds lifetime = std::chrono::seconds(60)) {
  auto made = MungeCredentials::start({for_uid, socket, lifetime});
  EXPECT_TRUE(made) << made.error().text();
  return std::move(*made);
}

Answer next(Credentials& credentials, Clock::duration most = Milliseconds(5000)) {
  const auto deadline = Deadline::in(most);
  for (;;) {
    auto answers = credentials.answers();
    if (!answers.empty()) return answers.front();
    if (deadline.passed()) {
      Answer none;
      none.problem = Problem::unavailable;
      none.why = "no answer";
      return none;
    }
    pollfd one{credentials.fd(), POLLIN, 0};
    ::poll(&one, 1, deadline.poll_ms());
  }
}

class MungeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(munged.up()) << "munged did not start"; }
  Munged munged;
  PortRange ports = test::free_ports();
};

TEST_F(MungeTest, MakesAndOpens) {
  auto credentials = munge(munged.socket());
  const std::string payload("bytes\0with a nul", 16);
  credentials->make(7, payload);
  const Answer made = next(*credentials);
  ASSERT_EQ(made.problem, Problem::none) << made.why;
  EXPECT_EQ(made.ticket, 7U);
  EXPECT_THAT(made.text, testing::StartsWith("MUNGE:"));
  credentials->open(8, made.text);
  const Answer opened = next(*credentials);
  ASSERT_EQ(opened.problem, Problem::none) << opened.why;
  EXPECT_EQ(opened.ticket, 8U);
  EXPECT_EQ(opened.text, payload);
  EXPECT_EQ(opened.uid, ::geteuid());
  EXPECT_NEAR(static_cast<double>(opened.made_at), static_cast<double>(::time(nullptr)), 3);
  EXPECT_GE(opened.opened_at, opened.made_at);
}

TEST_F(MungeTest, AnswersManyRequestsInOrder) {
  auto credentials = munge(munged.socket());
  constexpr std::uint64_t count = 500;
  for (std::uint64_t i = 0; i < count; ++i) credentials->make(i, "payload");
  std::uint64_t expected = 0;
  const auto deadline = Deadline::in(Milliseconds(10'000));
  while (expected < count && !deadline.passed()) {
    for (const auto& answer : credentials->answers()) {
      ASSERT_EQ(answer.problem, Problem::none) << answer.why;
      ASSERT_EQ(answer.ticket, expected++);
    }
    pollfd one{credentials->fd(), POLLIN, 0};
    ::poll(&one, 1, 100);
  }
  EXPECT_EQ(expected, count);
}

TEST_F(MungeTest, NamesEveryProblem) {
  auto credentials = munge(munged.socket());
  credentials->make(1, "payload");
  const std::string credential = next(*credentials).text;
  credentials->open(2, credential);
  EXPECT_EQ(next(*credentials).problem, Problem::none);
  credentials->open(3, credential);
  const Answer replayed = next(*credentials);
  EXPECT_EQ(replayed.problem, Problem::replayed);
  EXPECT_EQ(replayed.text, "payload");  // it comes back all the same
  credentials->open(4, "MUNGE:rubbish:");
  EXPECT_EQ(next(*credentials).problem, Problem::refused);
  credentials->open(5, "");
  EXPECT_EQ(next(*credentials).problem, Problem::refused);
  std::string forged = credential;
  forged[forged.size() / 2] = forged[forged.size() / 2] == 'A' ? 'B' : 'A';
  credentials->open(6, forged);
  EXPECT_EQ(next(*credentials).problem, Problem::refused);
  auto short_lived = munge(munged.socket(), ::geteuid(), std::chrono::seconds(1));
  short_lived->make(7, "payload");
  const std::string old = next(*short_lived).text;
  std::this_thread::sleep_for(Milliseconds(2200));
  credentials->open(8, old);
  const Answer expired = next(*credentials);
  EXPECT_EQ(expired.problem, Problem::expired) << expired.why;
  EXPECT_GT(expired.opened_at, expired.made_at);
  EXPECT_EQ(expired.text, "payload");
}

TEST_F(MungeTest, ACredentialOfAnotherKeyIsRefused) {
  Munged other;
  ASSERT_TRUE(other.up());
  // The keys hold the process id and are the same: write another one.
  auto here = munge(munged.socket());
  auto there = munge(other.socket());
  there->make(1, "payload");
  const std::string credential = next(*there).text;
  here->open(2, credential);
  EXPECT_EQ(next(*here).problem, Problem::refused);
}

TEST_F(MungeTest, OnlyTheNamedUserCanOpenIt) {
  if (::geteuid() != 0) GTEST_FAIL() << "needs root, to become another user";
  auto for_root = munge(munged.socket(), 0);
  for_root->make(1, "payload");
  const std::string credential = next(*for_root).text;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65'534) != 0 || ::setuid(65'534) != 0) ::_exit(2);
    auto own = MungeCredentials::start({65'534, munged.socket(), std::chrono::seconds(60)});
    if (!own) ::_exit(3);
    (*own)->open(1, credential);
    const Answer answer = next(**own);
    ::_exit(answer.problem == Problem::refused && answer.text.empty() ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for_root->open(2, credential);
  EXPECT_EQ(next(*for_root).problem, Problem::none);  // that try did not use it up
}

TEST_F(MungeTest, AWholeRendezvous) {
  auto made = Server::listen({test::a_job(), ports, {"n1", "n2"}, ::geteuid(), {}}, munge(munged.socket()));
  ASSERT_TRUE(made) << made.error().text();
  Server server = std::move(*made);
  std::vector<Client> clients;
  for (const char* name : {"n1", "n2"})
    clients.push_back(std::move(*Client::start({test::a_job(), ports, name, "n1", {"127.0.0.1"}, name},
                                               munge(munged.socket()), Deadline::in(Milliseconds(5000)))));
  Talk talk{&server, {&clients[0], &clients[1]}, {}, {}};
  ASSERT_TRUE(talk.until([&] { return talk.of(Event::Kind::joined).size() == 2; }));
  ASSERT_TRUE(clients[1].send(3, "samples"));
  ASSERT_TRUE(server.send(0, 4, "verdict"));
  ASSERT_TRUE(
      talk.until([&] { return talk.of(Event::Kind::message).size() == 1 && talk.frames[0].size() == 1; }));
  EXPECT_EQ(server.refusals(), 0U);
}

TEST_F(MungeTest, AFrozenMungedDelaysNobodyBeyondTheDeadline) {
  auto made = Server::listen({test::a_job(), ports, {"n1", "n2"}, ::geteuid(), {}}, munge(munged.socket()));
  ASSERT_TRUE(made);
  Server server = std::move(*made);
  ASSERT_EQ(::kill(munged.pid(), SIGSTOP), 0);
  const auto start = Clock::now();
  {
    auto client = Client::start({test::a_job(), ports, "n2", "n1", {"127.0.0.1"}, ""}, munge(munged.socket()),
                                Deadline::in(Milliseconds(1500)));
    ASSERT_TRUE(client);
    Talk talk{&server, {&*client}, {}, {}};
    ASSERT_TRUE(talk.until([&] { return client->state() == State::failed; }));
    EXPECT_THAT(client->error().text(),
                HasSubstr("munged (" + munged.socket() + ") on n2 has not answered for 1."));
  }
  // The child that waits for munged is gone as well.
  EXPECT_LT(Clock::now() - start, Milliseconds(2000));
  ASSERT_EQ(::kill(munged.pid(), SIGCONT), 0);
}

TEST_F(MungeTest, AMungedThatWakesUpIsGoodAgain) {
  auto credentials = munge(munged.socket());
  ASSERT_EQ(::kill(munged.pid(), SIGSTOP), 0);
  credentials->make(1, "payload");
  EXPECT_EQ(next(*credentials, Milliseconds(300)).why, "no answer");
  ASSERT_EQ(::kill(munged.pid(), SIGCONT), 0);
  EXPECT_EQ(next(*credentials).problem, Problem::none);
}

TEST_F(MungeTest, AMungedThatIsNotThereIsNamed) {
  auto credentials = munge("/nonexistent/munge.socket");
  EXPECT_EQ(credentials->name(), "munged (/nonexistent/munge.socket)");
  credentials->make(1, "payload");
  const Answer answer = next(*credentials);
  EXPECT_EQ(answer.problem, Problem::unavailable);
  EXPECT_THAT(answer.why, HasSubstr("/nonexistent/munge.socket"));
}

TEST_F(MungeTest, TheChildsEndIsAnAnswer) {
  auto credentials = munge(munged.socket());
  const pid_t child = static_cast<MungeCredentials&>(*credentials).child();
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  credentials->make(1, "payload");
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  const Answer answer = next(*credentials);
  EXPECT_EQ(answer.problem, Problem::unavailable);
  EXPECT_THAT(answer.why, HasSubstr("has ended"));
  credentials->make(2, "payload");
  EXPECT_EQ(next(*credentials).problem, Problem::unavailable);
}

TEST_F(MungeTest, TheChildHoldsNothingOfItsParentAndIsReaped) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  auto credentials = munge(munged.socket());
  const pid_t child = static_cast<MungeCredentials&>(*credentials).child();
  credentials->make(1, "payload");
  ASSERT_EQ(next(*credentials).problem, Problem::none);  // it is past its start
  ::close(ends[1]);
  pollfd one{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&one, 1, 1000), 1);
  EXPECT_NE(one.revents & POLLHUP, 0);  // no other holder of the writing end
  ::close(ends[0]);
  credentials.reset();
  EXPECT_EQ(::kill(child, 0), -1);
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace nccl_check::rendezvous
