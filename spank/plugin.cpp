// spank_nccl_check.so: what Slurm calls. Every hook only finds the context it was called in.
#include "spank/arguments.hpp"
#include "spank/guard.hpp"
#include "spank/slurm_api.hpp"
#include "spank/step.hpp"
#include "spank/submit.hpp"

// In C++ a constant at file scope is this file's own: without these nothing would be exported.
extern "C" {
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(nccl_check, 1)
}

namespace {

using namespace nccl_check::spank;

int check_option(int, const char* argument, int remote) {
  return guarded("--nccl-check", -1,
                 [&] { return remote != 0 ? step::check_option(argument) : submit::check_option(argument); });
}

int environment_option(int, const char* argument, int remote) {
  return guarded("--nccl-env", -1, [&] { return remote != 0 ? 0 : submit::environment_option(argument); });
}

// slurmd only learns here, in its log, that plugstack.conf is wrong: an error must not keep it from starting.
int check_arguments(int argc, char** argv) {
  if (auto arguments = parse_arguments(argc, argv); !arguments)
    slurm_error("nccl-check: %s; steps go on without the plugin", arguments.error().text().c_str());
  return 0;
}

}  // namespace

extern "C" {

int slurm_spank_init(spank_t spank, int argc, char** argv) {
  return guarded("slurm_spank_init", 0, [&] {
    switch (spank_context()) {
      case S_CTX_LOCAL:
      case S_CTX_ALLOCATOR:
        return submit::init(spank, argc, argv, check_option, environment_option);
      case S_CTX_REMOTE:
        return step::init(spank, argc, argv, check_option, environment_option);
      case S_CTX_SLURMD:
        return check_arguments(argc, argv);
      default:
        return 0;
    }
  });
}

int slurm_spank_init_post_opt(spank_t spank, int, char**) {
  return guarded("slurm_spank_init_post_opt", 0, [&] {
    switch (spank_context()) {
      case S_CTX_LOCAL:
      case S_CTX_ALLOCATOR:
        return submit::init_post_opt();
      case S_CTX_REMOTE:
        return step::init_post_opt(spank);
      default:
        return 0;
    }
  });
}

int slurm_spank_user_init(spank_t spank, int, char**) {
  return guarded("slurm_spank_user_init", 0, [&] { return step::user_init(spank); });
}

int slurm_spank_task_post_fork(spank_t spank, int, char**) {
  return guarded("slurm_spank_task_post_fork", 0, [&] { return step::task_post_fork(spank); });
}

int slurm_spank_task_init(spank_t spank, int, char**) {
  return guarded("slurm_spank_task_init", 0, [&] { return step::task_init(spank); });
}

}  // extern "C"
