#pragma once
// What a call to Slurm came to. Every subcommand ends in one JSON object on stdout and one of these exit
// codes.
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"

namespace nccl_check::slurm {

using Json = nlohmann::json;

constexpr int exit_definite = 0;   // done, or refused: the object says which
constexpr int exit_usage = 2;      // nothing was asked of Slurm
constexpr int exit_no_answer = 3;  // slurmctld did not answer: what was asked may have happened

struct Answer {
  Json object;
  int exit_code = exit_definite;
};

// From the error that libslurm left (errno): slurmctld's own "no" is definite, anything of the way there is
// not.
Answer failed_call(const char* doing);
bool answered(int code);

Answer refused(const std::string& why);

}  // namespace nccl_check::slurm
