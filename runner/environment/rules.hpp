#pragma once
// A site's own rules, as [[env]] tables in nccl-check.toml have them:
//   [[env]]
//   nodes = "gpu[001-064]"   # which nodes; all of these must fit, what is not given fits everything
//   partition = "h100"
//   gpu = "H100"             # a part of the model's name
//   fabric = "cxi"           # verbs, efa, cxi, none
//   nccl = ">=2.21"          # and/or "<2.27"
//   set = { NCCL_TOPO_FILE = "/etc/nccl/topo.xml" }
//   prepend = { LD_LIBRARY_PATH = "/opt/aws-ofi-nccl/lib" }
//   unset = ["NCCL_ALGO"]
//   why = "ticket 4711"
// For each variable the first rule that fits decides, in the order of the file.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "environment/version.hpp"
#include "node/facts.hpp"

namespace nccl_check::environment {

enum class Change { set, unset, prepend };
const char* name(Change change);

struct Match {
  std::vector<std::string> nodes;  // empty: all
  std::string partition;           // empty: all
  std::string gpu;                 // a part of the model's name, in any case; empty: all
  std::optional<node::Fabric> fabric;
  std::optional<Version> nccl_from;    // this one or newer
  std::optional<Version> nccl_before;  // older than this one
};

struct Rule {
  Match match;
  std::map<std::string, std::string> set, prepend;
  std::vector<std::string> unset;
  std::string why;     // shown with each variable; empty: the rule's place alone
  std::string source;  // "nccl-check.toml:40"
};

// What a site has, to tell rules that fit nothing; an empty list is not known.
struct Known {
  std::vector<std::string> nodes, partitions, gpus;
};

// Each rule that can fit nothing, does nothing, never takes effect, or contradicts another: the same variable
// with another value where both fit and neither is the exception to the other (an exception stands first).
std::vector<Error> check_rules(const std::vector<Rule>& rules, const Known& known);

bool valid_name(const std::string& variable);  // that a shell and NCCL's file can have

}  // namespace nccl_check::environment
