#include "spank/submit.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.hpp"
#include "option/spec.hpp"
#include "spank/arguments.hpp"
#include "spank/options.hpp"

namespace nccl_check::spank::submit {
namespace {

// Between Slurm's calls into this process.
struct State {
  bool inside = false;  // an srun that runs in an allocation which exists already
  bool asked = false;   // --nccl-check was given to this very program
  bool told = false;    // that --nccl-env has no effect yet
};

State& state() {
  static State one;
  return one;
}

// Line by line, so that each has Slurm's prefix and a caret stays under its word.
void tell(const std::string& lines) {
  for (const auto& line : split(lines, '\n'))
    if (!line.empty()) slurm_spank_log("%s", line.c_str());
}

}  // namespace

int init(spank_t spank, int argc, char** argv, spank_opt_cb_f check, spank_opt_cb_f environment) {
  if (auto arguments = parse_arguments(argc, argv); !arguments) {
    slurm_error("nccl-check: %s", arguments.error().text().c_str());
    return -1;
  }
  auto& now = state();
  now = State{};
  now.inside = spank_context() == S_CTX_LOCAL && std::getenv("SLURM_JOB_ID") != nullptr;
  // An srun inside a job is handed the job's option by sbatch or salloc. It reuses the job's verdict, which
  // its nodes find by themselves: with the option taken away here, one that arrives at a step was meant for
  // that step.
  if (now.inside) {
    ::unsetenv(inherited_variable);
    ::unsetenv(forwarded_variable);
  }
  ::unsetenv(asked_inside_variable);
  return register_options(spank, check, environment);
}

int check_option(const char* argument) {
  const auto parsed = option::parse(option::normalise(argument));
  if (const auto* bad = std::get_if<option::BadWord>(&parsed)) {
    tell("nccl-check: " + bad->display(option::check_name));
    return -1;
  }
  if (std::get<option::Spec>(parsed).help) {
    // Refusing the option is the one way in which a plugin can keep a program from submitting.
    std::fputs(option::help().c_str(), stdout);
    std::fputs("Nothing is submitted; that is all that Slurm means by calling the argument invalid.\n",
               stdout);
    std::fflush(stdout);
    return -1;
  }
  state().asked = true;
  return 0;
}

int environment_option(const char* argument) {
  const auto parsed = option::parse_environment(option::normalise(argument));
  if (const auto* bad = std::get_if<option::BadWord>(&parsed)) {
    tell("nccl-check: " + bad->display(option::env_name));
    return -1;
  }
  const auto choice = std::get<option::Environment>(parsed);
  if (choice != option::Environment::off && !state().told) {
    state().told = true;
    tell("nccl-check: --nccl-env=" + std::string(option::name(choice)) +
         " is accepted, but this version sets no NCCL variables yet");
  }
  return 0;
}

int init_post_opt() {
  if (state().inside && state().asked) ::setenv(asked_inside_variable, "1", 1);
  return 0;
}

}  // namespace nccl_check::spank::submit
