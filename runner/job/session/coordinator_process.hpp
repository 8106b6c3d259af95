#pragma once
// The coordinator of a job of several nodes: a child of the first node's gate, so that a gate is never busy
// with others' messages and can always kill it. Its settings come by a pipe, never by arguments that anyone
// can read.
#include <map>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "job/rendezvous/identity.hpp"
#include "job/session/coordinator.hpp"

namespace nccl_check::job {

struct CoordinatorSetup {
  CoordinatorSettings settings;
  rendezvous::JobIdentity identity;
  rendezvous::PortRange ports;
  std::uint32_t accepted_uid = 0;
  std::string munge_socket;  // empty: libmunge's own
  std::vector<std::string>
      topology_command;  // program and arguments that print {"leaves":{"s1":["n1",...]}}; empty: none
};

// Starts `program coordinator` (this program).
Result<Child> start_coordinator(const std::string& program, const CoordinatorSetup& setup);

// Which leaf each node hangs on, as that command prints it; nothing, and a line in the log, where it does
// not.
std::map<std::string, std::string> ask_topology(const std::vector<std::string>& command);

// The child's side: reads its settings from descriptor 3 and serves until the last word is said.
int coordinator_main();

}  // namespace nccl_check::job
