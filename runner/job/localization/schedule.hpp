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

// The accused, each with a witness of its own group, one that it has not met if there is any.
std::vector<Pair> plan_confirm(const Ledger& ledger);

// Where leaves are unknown: two nodes alone on a leaf whose uplinks are slow are slow with everybody but each
// other, and stand side by side in the list. So accused neighbours (in runs of three or more also the next
// but one) are tried together; if they are fast, it is their path.
std::vector<Pair> plan_beside(const Ledger& ledger);
// The accused that a node must have met by that rule.
std::vector<std::size_t> accused_beside(const Ledger& ledger, std::size_t node);

}  // namespace nccl_check::localization
