#pragma once
// What a check says: of a measurement, of a node, of a job. Plain data, shared by everything above.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"

namespace nccl_check::verdict {

// The order is that of the program's exit codes in contract.md, not of gravity.
enum class Class { pass, slow, hung, corrupt, broken, mismatched, untested };
std::string_view name(Class c);  // "pass", "slow", ...
bool parse(std::string_view text, Class& c);
int exit_code(Class c);         // pass 0, slow 1, hung 3, corrupt 4, broken 5, mismatched 6, untested 7
Class worse(Class a, Class b);  // corrupt > broken > hung > slow > mismatched > untested > pass

// What is done about it (decision 7). `strike` fails the job, and drains at the N-th strike within the
// window.
enum class Action { allow, warn, fail_job, strike, drain };
std::string_view name(Action a);  // "allow", "warn", "fail-job", "strike", "drain"
bool parse(std::string_view text, Action& a);

// What becomes of the job itself. gone: it had ended or been requeued before it could be failed.
enum class Fate { runs, requeued, held, cancelled, gone };
std::string_view name(Fate f);
bool parse(std::string_view text, Fate& f);

// memory_copy: of the host. device_memory: of a GPU. peer_copy: between two GPUs, both ways at once, the rate
// of one way. to_device, from_device: over a GPU's link to the host.
enum class Operation {
  all_reduce,
  all_gather,
  send_recv,
  memory_copy,
  device_memory,
  peer_copy,
  to_device,
  from_device
};
std::string_view name(
    Operation op);  // "all_reduce", "all_gather", "send/recv", "memory copy", "device memory", ...
bool parse(std::string_view text, Operation& op);  // also "send_recv", "memory_copy", ...

// busbw / algbw for n ranks: nccl-tests' definition, doc/PERFORMANCE.md there.
double bus_factor(Operation op, int ranks);
// GB/s (1e9 bytes). bytes: what nccl-tests' size column means (all_reduce: bytes a rank; all_gather: bytes of
// the whole result).
double algbw(std::uint64_t bytes, Nanoseconds t);
double busbw(Operation op, int ranks, std::uint64_t bytes, Nanoseconds t);

// One node in the job's verdict.
struct NodeVerdict {
  std::string node;
  Class cls = Class::pass;
  bool culprit = false;  // the node is to blame; only then may it be drained or struck
  std::string detail;    // "send/recv 11.2 GB/s with n1 and n4, limit 44 (200 Gb/s port mlx5_2 at 100)"
  std::string
      reason;  // the same, short, for Slurm's Reason field: "slow send/recv 11.2 < 44 GB/s with n1,n4"
  std::vector<std::string> partners;  // with whom it was found
  double busbw = 0;                   // GB/s, of what was measured; 0: nothing was
  double limit = 0;                   // GB/s; 0: none is known
};

// The job's verdict, as the first node's coordinator gives it.
struct JobVerdict {
  Class cls = Class::pass;
  std::string summary;  // "all_reduce 1 GiB on 4x4 NVIDIA H100: 361 GB/s busbw, limit 330 (table), 2.9 s"
  double busbw = 0;
  double limit = 0;
  std::vector<NodeVerdict> nodes;  // every node that is not a pass
  bool job_at_fault = false;       // the job fails though no node is to blame (busbw=, mismatched)
};

}  // namespace nccl_check::verdict
