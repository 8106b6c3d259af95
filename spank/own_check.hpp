#pragma once
// A step's own check: `nccl-check step`, once a node, by the node's first task, while the other tasks wait.
// In a task, not in slurmstepd, since only there Slurm has put the process into the step's cgroup and made it
// the user's for good: a process of the user outside the cgroup could be taken over by him.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "option/spec.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::spank {

// The longest that a step waits where the SPEC names no time: the program's own configuration ends it before.
inline constexpr std::chrono::seconds longest_check{600};
// What the program gets beyond the SPEC's time, to say that it ran out.
inline constexpr std::chrono::seconds grace{2};

struct CheckRequest {
  std::string program;
  std::string config;
  option::Spec spec;
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::uint32_t user = 0;
  std::uint32_t group = 0;
  std::uint32_t node_rank = 0;  // of the step's nodes
  std::string node;
  std::string nodes;                     // the step's, as a host list
  std::vector<std::string> environment;  // the task's; only Slurm's part of it is handed on
};

// What the node's tasks go by. Plain bytes: it is shared between processes.
struct Outcome {
  bool fails = false;  // the tasks end without the user's code
  verdict::Class verdict = verdict::Class::untested;
  double busbw = 0;  // GB/s; 0: nothing was measured
};

struct Checked {
  Outcome outcome;
  std::vector<std::string> lines;  // for the user
};

// Runs the program to its end or deadline. Never fails: what kept it from a verdict is an `untested` with its
// lines.
Checked run_check(const CheckRequest& request);

// How the tasks of a node learn what the first of them found. Made before they are forked.
class SharedOutcome {
 public:
  static Result<std::unique_ptr<SharedOutcome>> make();
  ~SharedOutcome();
  SharedOutcome(const SharedOutcome&) = delete;
  SharedOutcome& operator=(const SharedOutcome&) = delete;

  void publish(const Outcome& outcome);  // the first task, once
  // Any other task: until the first one has published, has died, or the time is over (nothing).
  std::optional<Outcome> wait(std::chrono::milliseconds most);
  void forked();  // slurmstepd, after the last fork: from here on the first task's death is seen

 private:
  struct Page;
  explicit SharedOutcome(Page* page, UniqueFd read, UniqueFd write)
      : page_(page), read_(std::move(read)), write_(std::move(write)) {}
  Page* page_;
  UniqueFd read_;  // readable once published, or when the last holder of `write_` is gone
  UniqueFd write_;
};

// Into the task's stderr, whole lines, at most a second where nobody reads it.
void tell_user(const std::vector<std::string>& lines);

}  // namespace nccl_check::spank
