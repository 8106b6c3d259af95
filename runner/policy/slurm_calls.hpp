#pragma once
// Slurm, as this program asks it: each call is a child (nccl-check-slurm) with a deadline, since libslurm's
// calls have none. The interface is for tests.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/result.hpp"
#include "policy/breaker.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::policy {

enum class Got {
  done,
  refused,    // a definite no, and `why`
  no_answer,  // it may have happened, and `why` we don't know
};

template <class T>
struct Answer {
  Got got = Got::no_answer;
  std::string why;
  T value{};
  [[nodiscard]] bool ok() const { return got == Got::done; }
};

struct NodeState {
  std::vector<std::string> words;  // "idle", "drain", "down", ...
  std::string reason;
  std::int64_t reason_time = 0;
  std::vector<std::string> partitions;
  [[nodiscard]] bool is(const std::string& word) const;
};

struct Drained {
  bool replaced = false;  // it had been drained by us before
  bool out = false;       // the node is drained now, by whomever; also where the call was refused
};

struct JobFailure {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;  // SLURM_JOB_RESTART_COUNT of the run that failed
  std::string told_if_requeued;
  std::string told_if_held;
  std::string told_if_cancelled;
  std::vector<std::string> avoid;
  bool hold = false;
};

using verdict::Fate;

struct JobFailed {
  Fate fate = Fate::gone;
  bool told = false;     // notified (srun, salloc) and commented
  bool avoided = false;  // the nodes to avoid are excluded
  std::vector<std::string> notes;
};

class Slurm {
 public:
  virtual ~Slurm() = default;
  // NodeAddr by name; names that nobody knows are missing. `ask`: with an RPC for those not in slurm.conf.
  virtual Answer<std::map<std::string, std::string>> addresses(const std::vector<std::string>& nodes,
                                                               bool ask, Deadline deadline) = 0;
  // Leaf switch -> its nodes among those given. Empty: the site has no topology.
  virtual Answer<std::map<std::string, std::vector<std::string>>> leaves(
      const std::vector<std::string>& nodes, Deadline deadline) = 0;
  virtual Answer<NodeState> node(const std::string& name, Deadline deadline) = 0;
  virtual Answer<std::vector<std::uint32_t>> jobs_on(const std::string& node, Deadline deadline) = 0;
  virtual Answer<Drained> drain(const std::string& node, const std::string& reason, Deadline deadline) = 0;
  virtual Answer<Unit> undrain(const std::string& node, Deadline deadline) = 0;
  virtual Answer<Reasons> reasons(Deadline deadline) = 0;  // ours
  virtual Answer<JobFailed> fail_job(const JobFailure& failure, Deadline deadline) = 0;
};

// `program`: find_slurm_program(). `environment`: what the child gets (slurm_environment()).
std::unique_ptr<Slurm> make_slurm(std::string program, std::vector<std::string> environment);

// SLURM_CONF and nothing else of ours: in a prolog, a user's text is in the environment.
std::vector<std::string> slurm_environment(const char* const* environment);

constexpr const char* reason_prefix = "nccl-check:";

// The parts between a child's output and an answer, for tests and fuzzing.
namespace wire {
Answer<NodeState> node(const std::string& json);
Answer<Drained> drain(const std::string& json);
Answer<Reasons> reasons(const std::string& json);
Answer<JobFailed> fail_job(const std::string& json);
Answer<std::map<std::string, std::string>> addresses(const std::string& json);
Answer<std::map<std::string, std::vector<std::string>>> leaves(const std::string& json);
Answer<std::vector<std::uint32_t>> jobs_on(const std::string& json);
}  // namespace wire

}  // namespace nccl_check::policy
