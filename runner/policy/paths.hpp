#pragma once
// Where things stand. Passed in, so that tests have their own.
#include <string>

namespace nccl_check::policy {

struct Paths {
  std::string config = NCCL_CHECK_CONFIG;             // nccl-check.toml
  std::string disabled = "/etc/nccl-check/disabled";  // the kill switch: while it exists, nothing is checked
  std::string run = "/run/nccl-check";                // of this boot: a file for each job
  std::string state = "/var/lib/nccl-check";          // what outlives a boot

  [[nodiscard]] std::string jobs() const { return run + "/jobs"; }
  [[nodiscard]] std::string results() const { return state + "/results.jsonl"; }
  [[nodiscard]] std::string strikes() const { return state + "/strikes.json"; }
  [[nodiscard]] std::string recent() const { return state + "/recent.json"; }
  [[nodiscard]] std::string drains() const { return state + "/drains.jsonl"; }
};

// nccl-check-slurm: beside this program, as installed or as built, else where it was configured to be
// installed. Empty where it is in none of them.
std::string find_slurm_program();

}  // namespace nccl_check::policy
