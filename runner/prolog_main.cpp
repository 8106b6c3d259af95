// Slurm's Prolog: proves the job's nodes before the job runs. Enable with
// Prolog=/usr/libexec/nccl-check/prolog in slurm.conf, or call it from a prolog of your own; it needs the
// environment that slurmd gives a prolog. Every job comes through here, so it links next to nothing: whom
// nothing is to be done for costs one exec.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "policy/first_look.hpp"

int main(int argc, char** argv) {
  using namespace nccl_check::policy;
  if (argc == 1 && std::getenv(option_variable) == nullptr &&
      first_look_at(NCCL_CHECK_CONFIG) == FirstLook::nothing_to_do)
    return 0;
  const char* program = std::getenv("NCCL_CHECK_PROGRAM");
  if (program == nullptr || *program == '\0') program = NCCL_CHECK_PROGRAM_PATH;
  constexpr int most = 32;
  char* arguments[most + 3] = {const_cast<char*>("nccl-check"), const_cast<char*>("gate")};
  for (int i = 1; i < argc && i <= most; ++i) arguments[i + 1] = argv[i];
  ::execv(program, arguments);
  // A prolog that fails would drain the node.
  std::fprintf(stderr, "nccl-check: %s cannot be started, the job is not checked: %s\n", program,
               std::strerror(errno));
  return 0;
}
