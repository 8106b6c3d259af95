#pragma once
// Which pairs to measure next, from what the ledger holds. Every plan is a set of disjoint pairs; an empty
// one ends its stage.
#include <vector>

#include "job/localization/ledger.hpp"

namespace nccl_check::localization {

// Within each group: whoever is neither cleared nor accused gets the nearest cleared node that it has not
// met, suspects first; those for whom none is left get each other. So the first round pairs neighbours. A
// group that has no fast pair after `fruitless` rounds is left alone.
std::vector<Pair> plan_inside(const Ledger& ledger, int round, int fruitless);

// Between leaves, at most `at_once` pairs a leaf: nodes that found no partner in theirs; and, where nothing
// has been found inside the leaves, one node for each leaf. A leaf that was slow gets one that was fast in
// the next round.
std::vector<Pair> plan_across(const Ledger& ledger, std::size_t at_once);

// The accused once more: with those beside them that they have not met (only where leaves are unknown), else
// with a witness of their own group, one that they have not met if there is any.
std::vector<Pair> plan_confirm(const Ledger& ledger);

// Where leaves are unknown, a node behind slow uplinks is slow with everybody but those of its own leaf, and
// these stand beside it in the list: on each side the first that is cleared, and before it up to three as
// doubtful as the node itself. If it is fast with one of them, it is the path; so it must have been tried
// with all. (Its other witnesses come from far down the list, where other uplinks are.)
struct Beside {
  std::vector<std::size_t> nodes;
  bool ends = true;  // false: more than three doubtful ones in a row, which may well be a leaf
};
Beside beside(const Ledger& ledger, std::size_t node);

}  // namespace nccl_check::localization
