#include "spank/arguments.hpp"

#include <string_view>

#include "base/text.hpp"

namespace nccl_check::spank {

Result<Arguments> parse_arguments(int argc, char** argv) {
  constexpr const char* allowed = "allowed: config=PATH, program=PATH";
  Arguments arguments;
  bool config = false;
  bool program = false;
  for (int i = 0; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto equals = text.find('=');
    const auto key = text.substr(0, equals);
    const bool is_config = key == "config";
    if (equals == std::string_view::npos || (!is_config && key != "program"))
      return Error{"unknown argument '" + printable(text) + "'", "plugstack.conf", allowed};
    if (is_config ? config : program)
      return Error{"argument '" + std::string(key) + "' is given twice", "plugstack.conf", allowed};
    (is_config ? config : program) = true;
    const auto path = text.substr(equals + 1);
    if (path.empty() || path.front() != '/')
      return Error{"'" + printable(text) + "' is not an absolute path", "plugstack.conf", allowed};
    (is_config ? arguments.config : arguments.program) = path;
  }
  return arguments;
}

}  // namespace nccl_check::spank
