#pragma once
// What the nodes of one job say to their coordinator and it to them, above the rendezvous: one JSON object a
// message. Everything here is parsed strictly: a field that is missing, of another type or out of bounds
// makes the message an error.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::job {

enum class MessageType : std::uint16_t {
  // node -> coordinator
  join = 1,       // Join: who I am, whether I measure
  ready = 2,      // Ready: the worker has opened its devices
  connected = 3,  // Answer without samples
  measured = 4,   // Answer
  failed = 5,     // Failed
  acted = 6,      // Acted
  // coordinator -> node
  start = 16,     // (empty) start a worker after all, though you would have reused a verdict
  connect = 17,   // Connect
  measure = 18,   // Measure
  restart = 19,   // Restart: a fresh worker
  verdict = 20,   // VerdictMessage
  fail_job = 21,  // FailJob: you are to fail the job
  final = 22,     // Final: the last word, write it down and go
};

enum class Participation { measure, reuse, off, untested };

struct Limit {
  double busbw = 0;    // GB/s; 0: none is known
  std::string source;  // "site rule, nccl-check.toml:40", "0.75 of hs0 at 10 Gb/s"
};
using Limits = std::map<verdict::Operation, Limit>;

struct Join {
  Participation participation = Participation::measure;
  std::string why;                              // for reuse, off, untested
  std::map<std::string, std::string> settings;  // program version and what else must be equal on all nodes
  Limits limits;                                // of this node, by its own configuration
  double reused_busbw = 0;                      // of the recent verdict
};

struct Ready {
  engine::Description description;
  std::string address;
  std::vector<engine::Figure> alone;  // node scope; empty: it was not measured
};

struct Connect {
  std::uint32_t id = 0;
  engine::Place place;
  std::uint32_t limit_ms = 0;
};

struct Measure {
  std::uint32_t id = 0;
  engine::Task task;
  std::uint32_t limit_ms = 0;
};

struct Restart {
  std::uint32_t id = 0;
  bool alone = false;  // measure this node alone once more
  int rank = -1;       // its place among `ranks`, for pairs; -1: none
  int ranks = 0;
};

struct Answer {
  std::uint32_t id = 0;
  engine::Samples samples;      // of measured
  engine::Connected connected;  // of connected
};

struct Failed {
  std::uint32_t id = 0;
  verdict::Class cls = verdict::Class::untested;
  std::string stage;  // "open", "connect", "all_reduce", ...
  std::string text;
  bool local = false;  // the cause lies in this node, whatever its peers do
};

struct VerdictMessage {
  verdict::JobVerdict job;
  std::optional<verdict::NodeVerdict> own;  // nothing: a pass
  double seconds = 0;
};

// What a culprit's gate did, or would have done, by its own policy.
struct Acted {
  std::string text;  // "drained", "strike 1 of 2 in 24 h", "would be drained (observe)"
  bool drained = false;
  bool job_fails = false;
};

struct FailJob {
  std::vector<std::string> requeued;   // what the user is to read where the job can be requeued,
  std::vector<std::string> held;       // where it is requeued but held,
  std::vector<std::string> cancelled;  // and where it can't
  bool hold = false;                   // nothing would be different in another run
  std::vector<std::string>
      avoid;                     // nodes that the requeued job must not get, since nothing else keeps it away
  std::vector<std::string> out;  // culprits, for the text
};

struct Final {
  std::vector<std::string> lines;
  bool job_fails = false;
  std::string action;  // "allow", "warn", "fail-job", "drain"...
};

// For each of the types above. decode()'s error names the message, the field and what was expected.
template <class T>
std::string encode(const T& message);
template <class T>
Result<T> decode(std::string_view payload);

}  // namespace nccl_check::job
