#pragma once
// Slurm's side of the plugin interface, in process: what the plugins call (spank_*, slurm_*) is defined here
// and exported by the test program, so that a plugin loaded by dlopen finds it as it would find srun's or
// slurmstepd's.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spank/slurm_api.hpp"

namespace nccl_check::fake {

// One process of Slurm's. Reset it before each scene.
struct Slurm {
  spank_context_t context = S_CTX_LOCAL;
  std::uint32_t job = 4001;
  std::uint32_t step = 0;
  std::uint32_t node_rank = 0;
  std::uint32_t local_tasks = 1;
  int task = 0;
  uid_t user = 0;
  gid_t group = 0;
  std::map<std::string, std::string, std::less<>>
      environment;  // the job's; spank_getenv and spank_setenv are refused outside a step
  std::map<std::string, spank_opt_cb_f> options;
  std::vector<std::string> log;  // "error: ...", "info: ...", "tell: ..." (slurm_spank_log)
  bool log_to_stderr = false;    // instead of `log`, without any memory

  [[nodiscard]] bool logged(const std::string& part) const;
  [[nodiscard]] std::string all_log() const;
};

Slurm& slurm();
void reset();

using Hook = int (*)(spank_t, int, char**);

// A plugin, loaded until the end of the program.
class Plugin {
 public:
  explicit Plugin(const std::string& path);  // ends the program when it can't be loaded
  [[nodiscard]] bool has(const std::string& hook) const;
  [[nodiscard]] Hook hook(const std::string& name) const;
  // Calls a hook with plugstack.conf's arguments.
  int call(const std::string& name, std::vector<std::string> arguments = {}) const;

 private:
  void* handle_;
};

}  // namespace nccl_check::fake
