#pragma once
// What slurmd tells a prolog about the job, by environment variables. Those that hold a user's text are
// hostile.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::commands {

struct PrologEnvironment {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string partition;
  std::string cluster;
  std::string node;                   // ours
  std::vector<std::string> nodes;     // the job's
  std::string nodelist;               // the same as Slurm writes it
  std::optional<std::string> option;  // of --nccl-check, unparsed; nothing: the job has no such option
};

using Lookup = std::function<const char*(const char*)>;  // as getenv(3)

// The option alone: all that is looked at for most jobs.
std::optional<std::string> option_of(const Lookup& lookup);
Result<PrologEnvironment> read_prolog_environment(const Lookup& lookup);

}  // namespace nccl_check::commands
