#pragma once
// How a node and the coordinator come to trust each other, as pure functions.
//
//   node                                        coordinator
//   hello (plain): a credential           ->    opens the credential once, judges it
//                                         <-    welcome, signed: it could open it; or refused, with the
//                                         reason
//   join, signed, what the node says first ->   the node has joined
//
// The credential can be opened by one uid alone, so whoever signs with the secret inside is that uid on a
// host that munge trusts. It names the port it was sent to: a stranger on another port cannot pass it on.
// `join` makes a copy of it useless.
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "job/rendezvous/credentials.hpp"
#include "job/rendezvous/identity.hpp"
#include "job/rendezvous/secret.hpp"

namespace nccl_check::rendezvous {

constexpr int protocol_version = 1;

// What a node's credential holds.
struct Hello {
  int protocol = protocol_version;
  JobIdentity job;
  std::string node;
  std::uint16_t port = 0;  // to which this credential is sent
  Secret secret;
};

std::string credential_payload(const Hello& hello);  // holds the secret: wipe() it after use
Result<Hello> parse_credential_payload(std::string_view payload);

// The plain first message: "nccl-check\n" and the credential. This and the refusals stay the same in every
// version, so that two versions can tell each other which they are.
std::string hello_text(std::string_view credential);
Result<std::string> parse_hello_text(std::string_view text);

// Why a node is not let in. Sent as "code\nreason".
struct Refusal {
  enum class Code {
    other_job,
    version,
    uid,
    clock,
    port,
    unknown_node,
    already_there,
    credential,
    unavailable,
    protocol
  };
  Code code = Code::protocol;
  std::string reason;
};
std::string_view name(Refusal::Code code);
std::string refusal_text(const Refusal& refusal);
std::optional<Refusal> parse_refusal_text(std::string_view text);  // the reason comes back printable
// Asking this coordinator again, or another, will not help: it is ours, and signed this.
bool final(Refusal::Code code);

struct Refused {
  Refusal refusal;
  std::optional<Hello> from;  // where it could be read: the refusal is signed with its secret
};
// What the coordinator of `job`, listening on `port`, makes of an opened credential. Whether the node belongs
// to the job, and is not there already, it must look up itself.
std::variant<Hello, Refused> judge(const Answer& opened, const JobIdentity& job, std::uint16_t port,
                                   uid_t accepted);

}  // namespace nccl_check::rendezvous
