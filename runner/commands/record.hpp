#pragma once
// The verdict record: /run/nccl-check/jobs/ID.json, a line of results.jsonl, what `step` prints. Schema
// nccl-check.verdict, version 1; no secrets. At most 64 KiB: beyond that the longest lists are cut, and `cut`
// says so.
#include <cstdint>
#include <optional>
#include <string>

#include "commands/check.hpp"

namespace nccl_check::commands {

struct RecordFacts {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> step;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0;
  std::string node;
  std::string nodes;  // host list
  std::string spec;   // canonical
  std::int64_t time = 0;
  std::string mode;  // observe, enforce
  bool reused = false;
};

std::string make_record(const RecordFacts& facts, const CheckOutcome& outcome);

}  // namespace nccl_check::commands
