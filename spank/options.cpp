#include "spank/options.hpp"

namespace nccl_check::spank {
namespace {

// Slurm copies the texts; its structure only lacks the const.
char* text(const char* literal) {
  return const_cast<char*>(literal);
}

int register_one(spank_t spank, spank_option option) {
  const auto code = spank_option_register(spank, &option);
  if (code == ESPANK_SUCCESS) return 0;
  slurm_error("nccl-check: cannot register --%s: %s", option.name, spank_strerror(code));
  return -1;
}

}  // namespace

int register_options(spank_t spank, spank_opt_cb_f check, spank_opt_cb_f environment) {
  constexpr int argument_required = 1;
  constexpr int argument_optional = 2;
  const int first = register_one(spank, {text("nccl-check"), text("SPEC"),
                                         text("prove, before the job starts, that its nodes move data as "
                                              "fast as they should (help: lists the words)"),
                                         argument_optional, 0, check});
  const int second =
      register_one(spank, {text("nccl-env"), text("auto|off|show"),
                           text("NCCL's variables for each node (accepted, without effect in this version)"),
                           argument_required, 0, environment});
  return first != 0 ? first : second;
}

}  // namespace nccl_check::spank
