#include "job/rendezvous/identity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nccl_check::rendezvous {

std::string JobIdentity::text() const {
  std::string out = fmt::format("job {}", job);
  if (step != no_step) out += fmt::format(" step {}", step);
  if (restart != 0) out += fmt::format(", restart {}", restart);
  return out;
}

Result<std::vector<std::uint16_t>> ports_of(const JobIdentity& job, PortRange range) {
  if (range.first == 0 || range.last < range.first)
    return Error{fmt::format("{}-{} is not a range of ports", range.first, range.last), "",
                 "give the first and the last port, such as 61000-61999"};
  const std::uint32_t size = range.last - range.first + 1U;
  // A prime far from the usual range sizes spreads the steps of one job; no_step + 1 is 0, so the job itself
  // is not moved.
  const std::uint32_t start = job.job + (job.step + 1U) * 7919U;
  std::vector<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(size, most_ports); ++i)
    ports.push_back(static_cast<std::uint16_t>(range.first + (start % size + i) % size));
  return ports;
}

}  // namespace nccl_check::rendezvous
