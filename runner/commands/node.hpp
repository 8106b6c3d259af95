#pragma once
// `nccl-check node`: what this node is, as far as NCCL and libfabric are concerned.
#include <ostream>
#include <string>

namespace nccl_check::commands {

struct NodeArguments {
  std::string root = "/";
  bool json = false;   // every fact with the place where it was read
  std::string record;  // a new folder for what is read, without names and addresses; empty: none
};

// 0: shown or recorded. 2: the arguments are wrong.
int node(const NodeArguments& arguments, std::ostream& out, std::ostream& error);

}  // namespace nccl_check::commands
