#pragma once
// Who is slow (decision 5). A state machine without I/O and clock:
//
//   Localization search(nodes, Settings{.all_nodes = verdict::Class::slow});
//   while (auto round = search.next_round()) {
//     // Measure round->pairs at the same time, by send/recv both ways; if round->fresh, with workers started
//     // anew. Then, of each pair:
//     search.record({pair, finding, busbw, samples});
//   }
//   Outcome outcome = search.outcome();
//
// The caller may stop at any point, also in the middle of a round: outcome() then says what is known, and
// accuses nobody on less than the rule: never fast with anybody; bad with two witnesses of its own leaf
// (nodes that were fast there), at least 5 samples each; slow in three measurements with them, or hung or
// corrupt in two; the last of these in fresh workers.
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "job/localization/ledger.hpp"
#include "job/localization/outcome.hpp"

namespace nccl_check::localization {

struct Settings {
  // Of the round with all nodes. After hung all workers hang, so every round has fresh ones.
  verdict::Class all_nodes = verdict::Class::slow;
  // How many pairs may cross one leaf's uplinks at once. More of them test more uplinks in one round; but
  // where routes are static, two that meet on one uplink look like a slow path.
  std::size_t across_at_once = 1;
  // Rounds of each stage; none grows with the number of nodes.
  int inside_rounds = 6;  // 2 suffice where most nodes are good, 3 with a node left over from an odd number
  int fruitless_rounds = 3;  // a group without a fast pair after so many is given up
  int across_rounds = 3;
  int confirm_rounds = 6;  // 1 suffices where most nodes are good
};

enum class Stage {
  inside,   // pairs within a leaf
  across,   // pairs of different leaves: clear nodes without a partner, name paths, accuse nobody
  confirm,  // the accused once more, with others and fresh workers
};

struct Round {
  int number = 1;  // from 1, through all stages
  Stage stage = Stage::inside;
  bool fresh = false;       // measure with workers started for this round
  std::vector<Pair> pairs;  // disjoint: to be measured at the same time
};

struct Measurement {
  Pair pair;
  Finding finding = Finding::failed;
  double busbw = 0;  // GB/s, median of the iterations' slower rank; 0: nothing was measured (hung, failed)
  std::size_t samples = 0;        // slow: how many iterations stand behind it
  std::vector<std::size_t> lost;  // failed: whose worker crashed, was missing or is in error; may be empty
};

class Localization {
 public:
  explicit Localization(std::vector<Node> nodes, Settings settings = {});

  // The next pairs, none when there is nothing left to find out. Pairs of the last round that were not
  // recorded count as not measured.
  std::optional<Round> next_round();
  // An error, and nothing recorded, for a pair that is not open in this round, a slow one on fewer than 5
  // samples, a fast, slow or corrupt one without a bandwidth, and a lost node that is not of a failed pair.
  Status record(const Measurement& measurement);
  // A node that went missing outside a measurement, also before the first round: not paired any more, named
  // in the outcome.
  void lose(std::size_t node) { ledger_.lose(node); }

  [[nodiscard]] Outcome outcome() const;

 private:
  std::vector<Node> nodes_;
  Settings settings_;
  Ledger ledger_;
  Stage stage_ = Stage::inside;
  int in_stage_ = 0;  // rounds of this stage so far
  int number_ = 0;
  bool fresh_ = false;
  bool done_ = false;
  std::vector<Pair> open_;  // of the round being measured
};

}  // namespace nccl_check::localization
