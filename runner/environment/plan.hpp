#pragma once
// What a node's environment should be: facts and rules to variables, each with its reason. Pure.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "environment/rules.hpp"
#include "environment/version.hpp"
#include "node/facts.hpp"

namespace nccl_check::environment {

// What is known of the job and the site beside this node's facts.
struct Situation {
  std::string node;       // by Slurm's name; empty: not known
  std::string partition;  // empty: not known
  std::optional<Version> nccl;
  std::optional<unsigned> nodes;  // of the job
  // Interfaces by which this node reached all others of the job in the gate's rendezvous; empty: not known.
  std::vector<std::string> proved;
  std::optional<node::Address::Family> family;  // what all nodes of the job agreed on
  std::function<bool(const std::string&)> exists = [](const std::string&) { return true; };  // a file here
  bool without_gpus = false;  // decide on the network even where there are no GPUs
};

struct Decision {
  std::string variable;
  Change change = Change::set;
  std::string value;  // of unset: empty
  std::string why;
  std::string source;  // the rule: built in, with where its numbers come from, or a file and line
  bool site = false;   // by a site's rule
};

struct LeftOut {
  std::string what;  // an interface, an HCA, a variable
  std::string why;
};

struct Plan {
  std::vector<Decision> decisions;  // by variable, each once
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;
  [[nodiscard]] const Decision* find(const std::string& variable) const;
};

Plan decide(const node::Facts& facts, const Situation& situation, const std::vector<Rule>& rules);

}  // namespace nccl_check::environment
