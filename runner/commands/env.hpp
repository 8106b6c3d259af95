#pragma once
// `nccl-check env`: what NCCL's environment should be on this node, and why.
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "environment/rules.hpp"

namespace nccl_check::commands {

struct EnvArguments {
  std::string root = "/";  // of the tree that is read: another than / has no environment of this process
  bool shell = false;      // lines for eval
  bool json = false;
  std::string nccl;               // the version; empty: that of the library found
  std::optional<unsigned> nodes;  // of the job; nothing: Slurm's, or not known
  bool without_gpus = false;      // also where there is no GPU
};

// What surrounds the command, passed in.
struct Surroundings {
  const char* const* environment = nullptr;  // as environ has it
  std::string home;                          // the user's folder; empty: not known
  std::vector<environment::Rule> rules;      // the site's
};

// 0: shown. 2: the arguments are wrong.
int env(const EnvArguments& arguments, const Surroundings& surroundings, std::ostream& out,
        std::ostream& error);

}  // namespace nccl_check::commands
