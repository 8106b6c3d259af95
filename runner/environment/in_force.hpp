#pragma once
// What NCCL's variables are here, by NCCL's own rules: the process's environment first, then the file that
// NCCL_CONF_FILE names (from 2.23 on) or else ~/.nccl.conf, then /etc/nccl.conf. Whoever sets first wins.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "environment/plan.hpp"

namespace nccl_check::environment {

struct Value {
  std::string variable;
  std::string value;
  std::string source;               // "environment", "/etc/nccl.conf:3"
  bool users = false;               // set by the user: the environment, ~/.nccl.conf or NCCL_CONF_FILE
  std::vector<std::string> hidden;  // "/etc/nccl.conf:3: Ring": what it defeats
};

struct BadLine {
  std::string source;  // "/etc/nccl.conf:3"
  std::string what;    // the line and what NCCL makes of it
};

struct InForce {
  std::map<std::string, Value> values;
  std::vector<BadLine> bad_lines;
};

struct ConfFile {
  std::string path;
  std::string text;
  bool users = false;
};

// NCCL's variables, libfabric's and the plugin's, out of "NAME=value" entries.
std::map<std::string, std::string> of_interest(const char* const* entries);

// The files that NCCL would read, in its order. `home` empty: not known. A file that NCCL_CONF_FILE names and
// that is not there is a bad line.
std::vector<ConfFile> conf_files(node::Tree& tree, const std::map<std::string, std::string>& environment,
                                 const std::string& home, const std::optional<Version>& nccl,
                                 std::vector<BadLine>& bad);

InForce merge(const std::map<std::string, std::string>& environment, const std::vector<ConfFile>& files);

// What the user set stays, and what /etc/nccl.conf says against a built-in rule (the environment would defeat
// the file in silence); a site's own rule goes before that file. The plan says what was kept.
void keep_what_is_set(const InForce& in_force, Plan& plan);

}  // namespace nccl_check::environment
