#pragma once
// One check on this node, from meeting the peers to the last word: what the gate (root, in a prolog) and a
// step's check (the job's user) have in common.
#include <string>
#include <vector>

#include "job/rendezvous/identity.hpp"
#include "job/session/coordinator.hpp"
#include "job/session/participant.hpp"

namespace nccl_check::commands {

struct CheckSetup {
  std::string program;                   // this program's own path, for the children
  std::string node;                      // our name
  job::CoordinatorSettings coordinator;  // nodes and what is measured, the same on all of them
  job::ParticipantSettings participant;
  rendezvous::JobIdentity identity;
  rendezvous::PortRange ports;
  std::vector<std::string> root_addresses;  // of the first node
  std::string address_problem;              // why there are none
  uid_t accepted_uid = 0;
  std::string munge_socket;
  std::vector<std::string> topology_command;
  Deadline verdict_by = Deadline::in(std::chrono::seconds(15));
  Deadline return_by = Deadline::in(std::chrono::seconds(16));
};

struct CheckOutcome {
  bool from_coordinator = false;  // or what this node had to conclude alone
  verdict::JobVerdict verdict;
  std::optional<verdict::NodeVerdict> own;  // of this node, where it is not a pass
  std::optional<job::Acted> acted;
  std::vector<std::string> lines;  // for the user
  bool job_fails = false;
  std::string action = "allow";
  double seconds = 0;
  std::optional<engine::Description> description;
};

struct CheckHooks {
  std::function<job::Acted(const job::VerdictMessage&)> decide;
  std::function<std::string(const job::FailJob&)> fail_job;
  // As soon as there is a verdict, before anything is done about it, and again with the last word.
  std::function<void(const CheckOutcome&)> note;
};

CheckOutcome run_check(const CheckSetup& setup, const CheckHooks& hooks);

// SIGTERM and SIGINT end a check early: its children are killed, the verdict is "untested".
void catch_signals();

}  // namespace nccl_check::commands
