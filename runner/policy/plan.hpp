#pragma once
// What is to be checked for one job: the site's configuration and the user's SPEC together. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "option/spec.hpp"
#include "policy/config.hpp"

namespace nccl_check::policy {

struct JobFacts {
  std::string partition;
  int nodes = 1;
  bool asked = false;     // the option was given
  bool disabled = false;  // the kill switch's file exists
};

struct Plan {
  bool check = false;
  std::string why_not;  // where nothing is checked
  bool tell = false;    // the user asked, so why_not is shown

  Scopes scopes;
  milliseconds deadline{0};
  milliseconds join{0};
  milliseconds reuse{0};  // 0: a recent verdict is not taken
  EngineChoice engine = EngineChoice::automatic;
  std::uint64_t size = 0;
  verdict::Operation collective = verdict::Operation::all_reduce;
  double wanted_busbw = 0;  // the user's own demand, GB/s; 0: none
  option::Consequence consequence = option::Consequence::unset;
  // The user made the check harder than the site's: a smaller message can look slow, a shorter time hung.
  // Such a verdict may fail the user's own job and is held against no node.
  bool users_size = false;
  bool users_time = false;
  std::vector<std::string> notes;  // where the user did not get what was asked for
};

Plan decide(const Config& config, const JobFacts& job, const option::Spec& spec);

// What must be equal on all nodes of a job, or they would measure different things; by name, for a message
// that says which differs.
std::map<std::string, std::string> fingerprint(const Config& config, const Plan& plan);

verdict::Operation operation(option::Collective c);

}  // namespace nccl_check::policy
