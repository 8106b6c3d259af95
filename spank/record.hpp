#pragma once
// The verdict record: a job's, as the gate left it in /run/nccl-check/jobs/ID.json, and a step's, as
// `nccl-check step` prints it. The file is root's; the text is read as a stranger's all the same.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "option/spec.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::spank {

inline constexpr std::string_view record_schema = "nccl-check.verdict";
inline constexpr int record_version = 1;
inline constexpr std::size_t most_record_bytes = 65'536;
inline constexpr const char* job_folder = "/run/nccl-check/jobs";

// Whose verdict is wanted. A record of any other is refused: a file may outlive its job, an id may come
// again. The restart count is no part of it: Slurm tells a plugin none (S_SLURM_RESTART_COUNT is 0 in every
// release), so that a requeued job's old file has to be gone, which is the gate's duty before and after the
// job.
struct Expected {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> step;  // nothing: the job's own verdict
  std::uint32_t user = 0;
};

struct Record {
  std::string node;        // who wrote it
  std::string first_node;  // of those that were checked together
  option::Spec spec;       // what was asked for
  verdict::Class verdict = verdict::Class::untested;
  bool job_fails = false;
  double busbw = 0;                // GB/s; 0: nothing was measured
  std::vector<std::string> lines;  // for the user, free of control characters
};

Result<Record> parse_record(std::string_view text, const Expected& expected);

std::string job_file(std::uint32_t job);

// Nothing: there is no such file. Refused: not root's, writable by others, a link, too large, not what was
// expected.
Result<std::optional<Record>> read_record(const std::string& path, const Expected& expected);

// True for the one caller who gets to show the record at `path` to the user: the claim is kept with the file
// (as an attribute, root's), so it ends with it. Where the file system keeps no attributes: `otherwise`.
bool claim_showing(const std::string& path, bool otherwise);

}  // namespace nccl_check::spank
