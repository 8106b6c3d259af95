#pragma once
// One search in one scenario: the samples simulated, the judge and the localization those of the program.
#include <cstddef>

#include "cases.hpp"

namespace nccl_check::simulation {

struct Tally {
  std::size_t bad = 0;
  std::size_t beyond = 0;      // of these: no rule of two good partners in its leaf can reach it
  std::size_t missed = 0;      // the others that were not accused
  std::size_t innocents = 0;   // accused though good
  std::size_t unresolved = 0;  // good, and neither cleared nor accused
  bool triggered = false;      // by the ring over all nodes; else nothing that the search finds counts
  int pairing = 0;             // rounds inside and across leaves
  int confirming = 0;          // rounds for the accused
};

Tally simulate(const Scenario& scenario, Random& random);

}  // namespace nccl_check::simulation
