#pragma once
// The grammar of `--nccl-check[=SPEC]` and `--nccl-env=WORD`: text to data and back. Pure, so that srun, the
// gate running as root and the fuzzer all read a user's text by the same code.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace nccl_check::option {

inline constexpr std::string_view check_name = "nccl-check";
inline constexpr std::string_view env_name = "nccl-env";

// A longer text is refused unread.
inline constexpr std::size_t most_bytes = 4096;

enum class Collective { all_reduce, all_gather, send_recv };
std::string_view name(Collective c);  // "all_reduce", "all_gather", "send_recv"

// What a failed check means for the job. `unset` is not `strict`: a site that only observes lets an unset job
// run.
enum class Consequence { unset, strict, warn };

// What a user asked for; whatever is not set is the site's to choose.
struct Spec {
  bool node = false;  // scope: inside each node
  bool job = false;   // scope: across the job's nodes; neither scope set: both, as far as the job has them
  Consequence consequence = Consequence::unset;
  std::optional<double> busbw;        // at least so many GB/s (1e9 bytes), or the job fails; 0.001 to 100000
  std::optional<std::uint64_t> size;  // bytes, 1 KiB to 64 GiB
  std::optional<Collective> collective;
  std::optional<std::chrono::milliseconds> time;  // at most this long; 100 ms to 1 h
  bool force = false;                             // no reuse of a recent verdict
  bool off = false;                               // no check; stands alone
  bool help = false;                              // print the table; stands alone

  bool operator==(const Spec&) const = default;
};

// What became of `--nccl-env`.
enum class Environment { automatic, off, show };
std::string_view name(Environment e);  // "auto", "off", "show"

// A text that is not in the grammar: which part of it, and what would have been.
struct BadWord {
  std::string text;        // all of what was given
  std::size_t column = 0;  // where the bad part starts in it, from 0
  std::size_t length = 0;
  std::string what;     // "'strct' is not a word of --nccl-check"
  std::string allowed;  // "allowed: node, job, ..."

  // "what, at column N" for one line of a log; everything a terminal can't show is '?'.
  [[nodiscard]] std::string line() const;
  // `what`, then the text with a caret under the bad part, then what is allowed. Lines end in '\n'.
  [[nodiscard]] std::string display(std::string_view option) const;
};

// Slurm hands a bare option over as NULL, "" or "(null)", by context: all three are the empty SPEC.
std::string_view normalise(const char* argument);

std::variant<Spec, BadWord> parse(std::string_view text);
std::variant<Environment, BadWord> parse_environment(std::string_view text);

// The one spelling of a SPEC: parse(canonical(s)) == s. "" for a bare option.
std::string canonical(const Spec& spec);

// The table that `--nccl-check=help` prints.
std::string help();

}  // namespace nccl_check::option
