// The parsers of the handshake: what a stranger, another node's root, or a credential may hold.
#include <cstdint>

#include "check.hpp"
#include "job/rendezvous/handshake.hpp"

namespace rv = nccl_check::rendezvous;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);

  if (auto refusal = rv::parse_refusal_text(text)) {
    FUZZ_CHECK(refusal->reason.size() <= 1024 + 3);
    for (const char c : refusal->reason) FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  if (auto credential = rv::parse_hello_text(text)) FUZZ_CHECK(rv::hello_text(*credential) == text);

  auto hello = rv::parse_credential_payload(text);
  if (hello) {
    FUZZ_CHECK(!hello->node.empty() && hello->node.size() <= 255);
    const auto again = rv::parse_credential_payload(rv::credential_payload(*hello));
    FUZZ_CHECK(again && again->node == hello->node && again->job == hello->job &&
               again->port == hello->port && again->secret.hex() == hello->secret.hex());
  }

  // Nobody is let in but by a hello of this job, this port and this user, without any problem.
  rv::Answer answer;
  answer.problem = static_cast<rv::Answer::Problem>(data[0] % 6);
  answer.uid = data[1];
  answer.made_at = static_cast<std::time_t>(data[0]) * 40'000'000;
  answer.opened_at = static_cast<std::time_t>(data[1]) * 40'000'000;
  answer.text = std::string(text);
  const rv::JobIdentity job{"alps", 12, rv::no_step, 0};
  const auto judged = rv::judge(answer, job, 61'012, 0);
  if (std::holds_alternative<rv::Hello>(judged)) {
    FUZZ_CHECK(answer.problem == rv::Answer::Problem::none && answer.uid == 0 && hello);
    FUZZ_CHECK(hello->job == job && hello->port == 61'012 && hello->protocol == rv::protocol_version);
  } else {
    const auto& refused = std::get<rv::Refused>(judged);
    FUZZ_CHECK(!refused.refusal.reason.empty());
    if (refused.from)
      FUZZ_CHECK(refused.refusal.reason.find(refused.from->secret.hex()) == std::string::npos);
  }
  return 0;
}
