#pragma once
// results.jsonl: a line for each check on this node. And the file of a running job, which its user may read.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace nccl_check::policy {

constexpr std::size_t most_record_bytes = 64U << 10U;   // of a verdict record
constexpr std::size_t most_results_bytes = 16U << 20U;  // then results.jsonl becomes results.jsonl.1

// `record`: a verdict record, one line of JSON without its newline. Larger ones and ones with a newline are
// refused.
Status append_result(const std::string& path, const std::string& record);

// The newest whole record of a job (of any job: nothing), from results.jsonl or the one before it. Lines that
// are cut off or not ours are passed over, and counted in `bad`.
Result<std::optional<std::string>> find_result(const std::string& path, std::optional<std::uint32_t> job,
                                               int& bad);

// /run/nccl-check/jobs/ID.json, readable by root and by the job's owner. The first error is of the file
// itself; where only the owner's right to read failed, `note` says so.
Status write_job_file(const std::string& folder, std::uint32_t job, const std::string& record, uid_t owner,
                      std::string& note);
Status remove_job_file(const std::string& folder, std::uint32_t job);
std::string job_file(const std::string& folder, std::uint32_t job);

// Files of jobs whose epilog never came: older than `age`. Returns how many went.
int sweep_job_files(const std::string& folder, std::chrono::hours age);

}  // namespace nccl_check::policy
