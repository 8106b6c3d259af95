#pragma once
// Where a node can be reached: the first source that knows. None of them may hold up the gate, so each runs
// in a child.
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/result.hpp"

namespace nccl_check::rendezvous {

struct AddressSource {
  std::string name;  // "Slurm's table", for messages
  std::function<Result<std::vector<std::string>>(const std::string& node, Deadline deadline)> look_up;
};

// `program` is nccl-check-slurm; `environment` what it gets ("SLURM_CONF=...").
AddressSource slurm_table(std::string program,
                          std::vector<std::string> environment);  // `address NODE`: no connection
AddressSource slurm_controller(std::string program,
                               std::vector<std::string> environment);  // `address --rpc NODE`
// The host's resolver, by getent(1): getaddrinfo itself waits as long as it likes.
AddressSource resolver(std::string getent = "/usr/bin/getent");

// Addresses as numbers, without repetition, from the first source that has any. Each source gets an equal
// share of the time that is left. The error tells what each of them said.
Result<std::vector<std::string>> find_addresses(const std::string& node,
                                                const std::vector<AddressSource>& sources, Deadline deadline);

}  // namespace nccl_check::rendezvous
