#pragma once
// What became of every drain of ours on this node. drains.jsonl: one line each, only ever added to, so that
// it survives the resume that clears Slurm's own reason.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::policy {

enum class DrainEvent {
  drained,
  unanswered,  // asked for, no answer: it may have happened
  taken_back,  // by the breaker
  released,    // by a person
};
std::string_view name(DrainEvent e);

struct DrainRecord {
  std::int64_t time = 0;  // unix seconds
  std::string node;
  DrainEvent event = DrainEvent::drained;
  std::uint32_t job = 0;      // 0: none
  bool across_nodes = false;  // the scope whose check failed
  std::string reason;         // as in Slurm
};

Status append_drain(const std::string& path, const DrainRecord& record);

// All of this node's, oldest first. A line that is none refuses the whole file, by its number: nothing can be
// proved from it, so a release then needs --force.
Result<std::vector<DrainRecord>> read_drains(const std::string& path, const std::string& node);

}  // namespace nccl_check::policy
