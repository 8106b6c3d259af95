#include "job/rendezvous/handshake.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace nccl_check::rendezvous {
namespace {

using testing::HasSubstr;
using Code = Refusal::Code;
using Problem = Answer::Problem;

const JobIdentity job{"alps", 12, no_step, 1};
constexpr std::uint16_t port = 61'012;

Hello a_hello() {
  return {protocol_version, job, "n3", port, *Secret::random()};
}

Answer opened(const Hello& hello, uid_t uid = 0) {
  Answer answer;
  answer.text = credential_payload(hello);
  answer.uid = uid;
  answer.made_at = answer.opened_at = 1'700'000'000;
  return answer;
}

Refused refused(const Answer& answer, uid_t accepted = 0) {
  auto judged = judge(answer, job, port, accepted);
  if (auto* no = std::get_if<Refused>(&judged)) return *no;
  ADD_FAILURE() << "was let in";
  return {};
}

TEST(CredentialPayload, ComesBackAsItWas) {
  const Hello hello = a_hello();
  const auto back = parse_credential_payload(credential_payload(hello));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->protocol, protocol_version);
  EXPECT_EQ(back->job, job);
  EXPECT_EQ(back->node, "n3");
  EXPECT_EQ(back->port, port);
  EXPECT_EQ(back->secret.hex(), hello.secret.hex());
}

TEST(CredentialPayload, NeedsEveryPartInItsType) {
  const auto whole = nlohmann::json::parse(credential_payload(a_hello()));
  for (const auto& [key, value] : whole.items()) {
    for (const auto& bad : {nlohmann::json(nullptr), nlohmann::json(-1), nlohmann::json(1e300),
                            nlohmann::json::array(), nlohmann::json(std::string(300, 'x'))}) {
      auto object = whole;
      object[key] = bad;
      const auto parsed = parse_credential_payload(object.dump());
      ASSERT_FALSE(parsed) << object.dump();
      EXPECT_THAT(parsed.error().text(), HasSubstr("holds no hello"));
    }
    auto object = whole;
    object.erase(key);
    EXPECT_FALSE(parse_credential_payload(object.dump())) << key;
  }
  for (const char* text : {"", "x", "[]", "1", "{", "null", "{\"protocol\":1}"})
    EXPECT_FALSE(parse_credential_payload(text)) << text;
  auto other_role = whole;
  other_role["role"] = "root";
  EXPECT_FALSE(parse_credential_payload(other_role.dump()));
  auto large_port = whole;
  large_port["port"] = 65'536;
  EXPECT_FALSE(parse_credential_payload(large_port.dump()));
}

TEST(HelloText, NamesWhatCameInstead) {
  EXPECT_EQ(*parse_hello_text(hello_text("MUNGE:abc:")), "MUNGE:abc:");
  const auto http = parse_hello_text("GET / HTTP\x1b[31m");
  ASSERT_FALSE(http);
  EXPECT_THAT(http.error().text(), HasSubstr("begins 'GET / HTTP?[31m'"));
  EXPECT_FALSE(parse_hello_text(hello_text("")));
  EXPECT_FALSE(parse_hello_text(""));
}

TEST(RefusalText, ComesBackPrintable) {
  for (const auto code :
       {Code::other_job, Code::version, Code::uid, Code::clock, Code::port, Code::unknown_node,
        Code::already_there, Code::credential, Code::unavailable, Code::protocol}) {
    const auto back = parse_refusal_text(refusal_text({code, "why\x1b not"}));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->code, code);
    EXPECT_EQ(back->reason, "why? not");
  }
  EXPECT_FALSE(parse_refusal_text(""));
  EXPECT_FALSE(parse_refusal_text("other-job"));
  EXPECT_FALSE(parse_refusal_text("nonsense\nwhy"));
}

TEST(Judge, LetsInWhoIsRight) {
  const Hello hello = a_hello();
  const auto judged = judge(opened(hello, 1000), job, port, 1000);
  ASSERT_TRUE(std::holds_alternative<Hello>(judged));
  EXPECT_EQ(std::get<Hello>(judged).node, "n3");
  EXPECT_EQ(std::get<Hello>(judged).secret.hex(), hello.secret.hex());
}

TEST(Judge, RefusesAnotherJobStepRestartOrCluster) {
  for (const JobIdentity& other :
       {JobIdentity{"alps", 13, no_step, 1}, JobIdentity{"alps", 12, 0, 1},
        JobIdentity{"alps", 12, no_step, 0}, JobIdentity{"daint", 12, no_step, 1}}) {
    Hello hello = a_hello();
    hello.job = other;
    const auto no = refused(opened(hello));
    EXPECT_EQ(no.refusal.code, Code::other_job);
    EXPECT_THAT(no.refusal.reason, HasSubstr("this is the root of job 12, restart 1"));
    EXPECT_TRUE(no.from);
    EXPECT_FALSE(final(no.refusal.code));
  }
}

TEST(Judge, RefusesAnotherVersionByBothNumbers) {
  Hello hello = a_hello();
  hello.protocol = 9;
  const auto no = refused(opened(hello));
  EXPECT_EQ(no.refusal.code, Code::version);
  EXPECT_THAT(no.refusal.reason, HasSubstr("it speaks protocol 9, the root speaks 1"));
  EXPECT_TRUE(final(no.refusal.code));
}

TEST(Judge, RefusesAnotherUser) {
  const auto no = refused(opened(a_hello(), 1000));
  EXPECT_EQ(no.refusal.code, Code::uid);
  EXPECT_EQ(no.refusal.reason, "its credential is uid 1000's, only uid 0's are taken");
  EXPECT_EQ(refused(opened(a_hello(), 0), 1000).refusal.code, Code::uid);  // root is nobody special to a user
}

TEST(Judge, RefusesACredentialThatWasPassedOn) {
  Hello hello = a_hello();
  hello.port = port + 1;
  const auto no = refused(opened(hello));
  EXPECT_EQ(no.refusal.code, Code::port);
  EXPECT_THAT(no.refusal.reason, HasSubstr("sent to port 61013, and comes to port 61012"));
}

TEST(Judge, RefusesEveryProblemThoughThePayloadIsThere) {
  Answer answer = opened(a_hello());
  for (const auto problem :
       {Problem::replayed, Problem::expired, Problem::rewound, Problem::unavailable, Problem::refused}) {
    answer.problem = problem;
    answer.why = "in the service's words";
    refused(answer);
  }
  answer.problem = Problem::replayed;
  EXPECT_EQ(refused(answer).refusal.code, Code::credential);
  EXPECT_THAT(refused(answer).refusal.reason, HasSubstr("a copy of a credential of n3 that was used before"));
  answer.problem = Problem::refused;
  EXPECT_EQ(refused(answer).refusal.reason, "the root cannot open its credential: in the service's words");
  EXPECT_FALSE(refused(answer).from);
  answer.problem = Problem::unavailable;
  EXPECT_EQ(refused(answer).refusal.code, Code::unavailable);
}

TEST(Judge, NamesBothTimesOfAClockThatIsOff) {
  Answer answer = opened(a_hello());
  answer.problem = Problem::expired;
  answer.opened_at += 400;
  EXPECT_EQ(refused(answer).refusal.code, Code::clock);
  EXPECT_EQ(refused(answer).refusal.reason,
            "the clock of n3 is 400 s behind the root's, too far: it was 2023-11-14 22:13:20 UTC there and "
            "2023-11-14 "
            "22:20:00 UTC here; set the clocks");
  answer.problem = Problem::rewound;
  answer.opened_at -= 1000;
  EXPECT_THAT(refused(answer).refusal.reason, HasSubstr("n3 is 600 s ahead of the root's"));
  EXPECT_TRUE(final(Code::clock));
  answer.made_at = std::numeric_limits<std::time_t>::max();  // no year that gmtime could show
  EXPECT_THAT(refused(answer).refusal.reason, HasSubstr("s since 1970"));
}

TEST(Judge, RefusesAPayloadThatIsNoHello) {
  Answer answer = opened(a_hello());
  answer.text = "{}";
  EXPECT_EQ(refused(answer).refusal.code, Code::protocol);
  EXPECT_THAT(refused(answer).refusal.reason, HasSubstr("no protocol version"));
}

TEST(Judge, NeverShowsTheSecret) {
  Hello hello = a_hello();
  hello.node = "n3";
  Answer answer = opened(hello);
  for (const auto problem :
       {Problem::replayed, Problem::expired, Problem::rewound, Problem::unavailable, Problem::refused}) {
    answer.problem = problem;
    EXPECT_THAT(refused(answer).refusal.reason, testing::Not(HasSubstr(hello.secret.hex().substr(0, 8))));
  }
}

}  // namespace
}  // namespace nccl_check::rendezvous
