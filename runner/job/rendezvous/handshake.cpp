#include "job/rendezvous/handshake.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace nccl_check::rendezvous {
namespace {

using Json = nlohmann::json;
using Code = Refusal::Code;

constexpr std::string_view greeting = "nccl-check\n";
constexpr std::string_view role = "node";
constexpr std::size_t most_name = 255;

constexpr std::array<std::pair<Code, std::string_view>, 10> codes{{{Code::other_job, "other-job"},
                                                                   {Code::version, "version"},
                                                                   {Code::uid, "uid"},
                                                                   {Code::clock, "clock"},
                                                                   {Code::port, "port"},
                                                                   {Code::unknown_node, "unknown-node"},
                                                                   {Code::already_there, "already-there"},
                                                                   {Code::credential, "credential"},
                                                                   {Code::unavailable, "unavailable"},
                                                                   {Code::protocol, "protocol"}}};

Error bad_payload(const std::string& why) {
  return Error{"a credential that holds no hello: " + why, "", ""};
}

template <class T>
bool read_number(const Json& object, const char* key, T& out) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned()) return false;
  const auto value = at->get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return false;
  out = static_cast<T>(value);
  return true;
}

bool read_text(const Json& object, const char* key, std::string& out) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return false;
  out = at->get<std::string>();
  return out.size() <= most_name;
}

std::string utc(std::time_t time) {
  // gmtime fails for years that a clock can be wrong by; fmt would throw then.
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return fmt::format("{} s since 1970", time);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", parts);
}

Refusal of_clock(const Answer& opened, const std::string& node) {
  const bool expired = opened.problem == Answer::Problem::expired;
  const auto seconds = expired ? opened.opened_at - opened.made_at : opened.made_at - opened.opened_at;
  return {Code::clock,
          fmt::format(
              "the clock of {} is {} s {} the root's, too far: it was {} there and {} here; set the clocks",
              printable(node), seconds, expired ? "behind" : "ahead of", utc(opened.made_at),
              utc(opened.opened_at))};
}

}  // namespace

std::string credential_payload(const Hello& hello) {
  return Json{{"protocol", hello.protocol},
              {"cluster", hello.job.cluster},
              {"job", hello.job.job},
              {"step", hello.job.step},
              {"restart", hello.job.restart},
              {"node", hello.node},
              {"role", role},
              {"port", hello.port},
              {"secret", hello.secret.hex()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Hello> parse_credential_payload(std::string_view payload) {
  const Json object = Json::parse(payload, nullptr, false);
  if (!object.is_object()) return bad_payload("not a JSON object");
  JobIdentity job;
  std::string node;
  std::string hex;
  std::string who;
  int protocol = 0;
  std::uint16_t port = 0;
  if (!read_number(object, "protocol", protocol)) return bad_payload("no protocol version");
  if (!read_text(object, "cluster", job.cluster)) return bad_payload("no cluster");
  if (!read_number(object, "job", job.job)) return bad_payload("no job");
  if (!read_number(object, "step", job.step)) return bad_payload("no step");
  if (!read_number(object, "restart", job.restart)) return bad_payload("no restart count");
  if (!read_text(object, "node", node) || node.empty()) return bad_payload("no node");
  if (!read_text(object, "role", who) || who != role) return bad_payload("not the role of a node");
  if (!read_number(object, "port", port)) return bad_payload("no port");
  if (!read_text(object, "secret", hex)) return bad_payload("no secret");
  auto secret = Secret::from_hex(hex);
  wipe(hex);
  if (!secret) return bad_payload("a secret that is not 32 bytes");
  return Hello{protocol, job, node, port, *secret};
}

std::string hello_text(std::string_view credential) {
  return fmt::format("{}{}", greeting, credential);
}

Result<std::string> parse_hello_text(std::string_view text) {
  if (text.substr(0, greeting.size()) != greeting)
    return Error{fmt::format("not a node of ours: its first message begins '{}'", printable(text, 24)), "",
                 ""};
  text.remove_prefix(greeting.size());
  if (text.empty()) return Error{"its first message has no credential", "", ""};
  return std::string(text);
}

std::string_view name(Code code) {
  for (const auto& [each, text] : codes)
    if (each == code) return text;
  return "protocol";
}

std::string refusal_text(const Refusal& refusal) {
  return fmt::format("{}\n{}", name(refusal.code), refusal.reason.substr(0, 1024));
}

std::optional<Refusal> parse_refusal_text(std::string_view text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  for (const auto& [code, word] : codes)
    if (word == text.substr(0, end)) return Refusal{code, printable(text.substr(end + 1), 1024)};
  return std::nullopt;
}

bool final(Code code) {
  switch (code) {
    case Code::version:
    case Code::uid:
    case Code::clock:
    case Code::unknown_node:
    case Code::already_there:
      return true;
    case Code::other_job:    // its coordinator has the port that ours would have had
    case Code::port:         // somebody passed our credential on
    case Code::credential:   // somebody was faster with a copy of it
    case Code::unavailable:  // munged may come back
    case Code::protocol:
      return false;
  }
  return false;
}

std::variant<Hello, Refused> judge(const Answer& opened, const JobIdentity& job, std::uint16_t port,
                                   uid_t accepted) {
  using Problem = Answer::Problem;
  if (opened.problem == Problem::unavailable)
    return Refused{{Code::unavailable, "the root cannot open credentials: " + opened.why}, std::nullopt};
  if (opened.problem == Problem::refused)
    return Refused{{Code::credential, "the root cannot open its credential: " + opened.why}, std::nullopt};
  auto hello = parse_credential_payload(opened.text);
  if (!hello) return Refused{{Code::protocol, hello.error().text()}, std::nullopt};
  const auto refused = [&](Code code, std::string reason) {
    return Refused{{code, std::move(reason)}, *hello};
  };
  if (opened.problem == Problem::expired || opened.problem == Problem::rewound)
    return Refused{of_clock(opened, hello->node), *hello};
  if (opened.problem != Problem::none)
    return refused(Code::credential,
                   fmt::format("a copy of a credential of {} that was used before", printable(hello->node)));
  if (hello->protocol != protocol_version)
    return refused(Code::version,
                   fmt::format("it speaks protocol {}, the root speaks {}; install one version of "
                               "nccl-check on all nodes",
                               hello->protocol, protocol_version));
  if (hello->job.cluster != job.cluster)
    return refused(Code::other_job,
                   fmt::format("it comes for cluster '{}', this is the root of {} of cluster '{}'",
                               printable(hello->job.cluster), job.text(), job.cluster));
  if (hello->job != job)
    return refused(Code::other_job,
                   fmt::format("it comes for {}, this is the root of {}", hello->job.text(), job.text()));
  if (hello->port != port)
    return refused(Code::port, fmt::format("its credential was sent to port {}, and comes to port {}",
                                           hello->port, port));
  // Last, so that a node that meets another job's coordinator by its port goes on to its own.
  if (opened.uid != accepted)
    return refused(Code::uid,
                   fmt::format("its credential is uid {}'s, only uid {}'s are taken", opened.uid, accepted));
  return *hello;
}

}  // namespace nccl_check::rendezvous
