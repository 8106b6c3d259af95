#pragma once
// Whose rendezvous it is, and on which ports of the first node its coordinator may be found.
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nccl_check::rendezvous {

constexpr std::uint32_t no_step = 0xffffffff;  // the job itself, checked by its prolog

struct JobIdentity {
  std::string cluster;
  std::uint32_t job = 0;
  std::uint32_t step = no_step;
  std::uint32_t restart = 0;  // Slurm's restart count: a requeued job keeps its id

  bool operator==(const JobIdentity&) const = default;
  [[nodiscard]] std::string text() const;  // "job 1234", "job 1234 step 2, restart 1"
};

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  // itself included
};

constexpr int most_ports =
    8;  // so many are tried, by the coordinator and by the nodes, before it is an error

// The ports of this job in the order in which they are tried: job id (a step's own mixed in) into the range,
// then the next ones, wrapped around; at most `most_ports`. An empty range is an error.
Result<std::vector<std::uint16_t>> ports_of(const JobIdentity& job, PortRange range);

}  // namespace nccl_check::rendezvous
