#pragma once
// A job's nodes with their faults, and a search over them, each of whose rounds is checked against what a
// round must be.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "job/localization/localization.hpp"

namespace nccl_check::localization {

struct World {
  std::vector<Node> nodes;
  std::set<std::size_t> slow;
  std::set<std::size_t> hung;
  std::set<std::size_t> crashing;                            // the worker dies in each measurement
  std::set<std::pair<std::size_t, std::size_t>> slow_paths;  // both ways
  std::set<std::string> slow_uplinks;                        // of leaves
  Settings settings;

  static World of(std::size_t n,
                  const std::vector<std::string>& leaves = {});  // n1, n2, ...; leaves in order, or unknown
  [[nodiscard]] Measurement measure(Pair pair) const;
  [[nodiscard]] bool at_fault(std::size_t node) const { return slow.count(node) + hung.count(node) > 0; }
};

struct Search {
  std::vector<Round> rounds;
  std::vector<std::pair<Measurement, bool>> log;  // and whether by fresh workers
  std::set<std::pair<std::size_t, std::size_t>> met;
  std::set<std::size_t> lost;
  Outcome outcome;

  [[nodiscard]] int count(Stage stage) const;
};

// Runs to the end, or stops after so many measurements. Fails the test for a round or an outcome that breaks
// a rule.
Search search(const World& world, std::size_t stop_after = static_cast<std::size_t>(-1));

// Names, to compare with.
std::vector<std::string> culprits(const Outcome& outcome);
std::vector<std::string> unresolved(const Outcome& outcome);
std::vector<std::string> paths(const Outcome& outcome);
std::vector<std::string> named(const World& world, const std::set<std::size_t>& nodes);
std::vector<std::string> named(const World& world, const std::vector<std::size_t>& nodes);

}  // namespace nccl_check::localization
