#pragma once
// What is in force and does not mean what it seems to.
#include <functional>
#include <string>
#include <vector>

#include "environment/in_force.hpp"

namespace nccl_check::environment {

// NCCL's lists: "[^][=]name[:port],...". Only the first characters count.
struct NameList {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;  // as they stand, blanks and all
  [[nodiscard]] bool names_it(const std::string& entry, const std::string& name) const;  // ports aside
  [[nodiscard]] bool takes(const std::string& name) const;
};
NameList parse_list(const std::string& value);

struct Remark {
  std::string variable;
  std::string text;
};

std::vector<Remark> remark(const InForce& in_force, const node::Facts& facts, const Situation& situation);

}  // namespace nccl_check::environment
