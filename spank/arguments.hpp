#pragma once
// What follows the plugin's path in plugstack.conf.
#include <string>

#include "base/result.hpp"

namespace nccl_check::spank {

struct Arguments {
  std::string config = NCCL_CHECK_CONFIG;    // config=PATH, the configuration that the program reads
  std::string program = NCCL_CHECK_PROGRAM;  // program=PATH, the program itself

  bool operator==(const Arguments&) const = default;
};

// Refuses, by name, what it does not know, what is given twice and a path that is not absolute.
Result<Arguments> parse_arguments(int argc, char** argv);

}  // namespace nccl_check::spank
