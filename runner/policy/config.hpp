#pragma once
// The site's policy: etc/nccl-check.toml, read and checked into a value that has no gaps. The file documents
// every key; its commented defaults are the ones below (a test compares them).
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::policy {

using std::chrono::milliseconds;

enum class Mode { observe, enforce };
enum class When { requested, always, never };
enum class NoAnswer { fail_prolog, allow };
enum class EngineChoice { automatic, fabric, nccl };
std::string_view name(Mode m);
std::string_view name(When w);
std::string_view name(NoAnswer n);
std::string_view name(EngineChoice e);

struct Scopes {
  bool node = true;  // inside each node
  bool job = true;   // across the job's nodes
  bool operator==(const Scopes&) const = default;
};

struct Ports {
  std::uint16_t first = 61000;
  std::uint16_t last = 61999;
  bool operator==(const Ports&) const = default;
};

// A site's own limit. The first rule that fits is taken, in the order of the file.
struct LimitRule {
  std::vector<std::string> nodes;  // empty: all
  std::string partition;           // empty: all
  int gpus = 0;                    // that the job has on the node; 0: any number, and none
  verdict::Operation operation = verdict::Operation::all_reduce;
  double busbw = 0;             // GB/s (1e9 bytes)
  std::uint64_t from_size = 0;  // bytes: smaller messages are not judged by it; not set: measure.size
  std::string note;             // where the number is from, shown with it
  int line = 0;                 // in the file
};

struct Config {
  Mode mode = Mode::observe;
  When when = When::requested;
  std::vector<std::string> partitions;  // empty: all
  Scopes scopes;
  milliseconds deadline{15'000};
  milliseconds join{5'000};
  bool users_may_decline = true;
  milliseconds reuse{6 * 3'600'000};  // 0: never
  Ports ports;
  NoAnswer no_answer = NoAnswer::fail_prolog;

  EngineChoice engine = EngineChoice::automatic;
  std::uint64_t size = 1ULL << 30U;  // bytes, nccl-tests' size column
  verdict::Operation collective = verdict::Operation::all_reduce;

  std::string provider;                 // empty: the best found
  std::vector<std::string> interfaces;  // empty: found by itself
  std::string library;                  // libfabric's path; empty: the loader's own search
  std::string nccl_library;             // libnccl's, libcuda's and libnvidia-ml's paths, likewise
  std::string cuda_library;
  std::string nvml_library;

  std::string user = "nccl-check";
  std::uint64_t memory = 16ULL << 30U;  // bytes; 0: no cap

  std::vector<LimitRule> limits;
  // By verdict class. A pass is always allowed.
  std::array<verdict::Action, 7> actions{
      verdict::Action::allow, verdict::Action::strike,   verdict::Action::strike, verdict::Action::drain,
      verdict::Action::drain, verdict::Action::fail_job, verdict::Action::allow};
  int strikes = 2;
  milliseconds strike_window{24 * 3'600'000};

  int breaker_nodes = 8;        // 0: no such bound
  double breaker_percent = 10;  // of the partition, one node at least; 0: no such bound
  milliseconds breaker_window{24 * 3'600'000};

  [[nodiscard]] verdict::Action action(verdict::Class c) const {
    return actions[static_cast<std::size_t>(c)];
  }
};

struct Loaded {
  std::optional<Config> config;  // nothing: there are errors
  std::vector<Error> errors;     // all of them, each with file:line and what is allowed
};

constexpr std::size_t most_config_bytes = 1U << 20U;

// Pure. `path` is for the errors' texts alone.
Loaded parse_config(std::string_view text, const std::string& path);

// The file must be root's and writable by nobody else. Missing, untrusted or broken: no config, and the
// caller answers `untested`.
Loaded load_config(const std::string& path);

// The first rule for an operation at a size on all of these nodes; nothing: no rule of the site's applies.
// `gpus`: how many the job has on each.
const LimitRule* find_limit(const Config& config, const std::vector<std::string>& nodes,
                            const std::string& partition, verdict::Operation operation, std::uint64_t bytes,
                            int gpus = 0);

}  // namespace nccl_check::policy
