#pragma once
// What was measured between pairs of nodes, and what follows for each node from that alone. The rules of who
// is cleared, who may testify and who is accused are here and nowhere else.
#include <cstddef>
#include <string>
#include <vector>

namespace nccl_check::localization {

struct Node {
  std::string name;
  std::string leaf;  // leaf switch; empty: unknown
};

// Nodes by their index in the job's list.
struct Pair {
  std::size_t a = 0;
  std::size_t b = 0;
};
inline bool operator==(const Pair& x, const Pair& y) {
  return x.a == y.a && x.b == y.b;
}

// What a pair was found to be. What the judge leaves undecided at its budget is fast (a pass, marginal).
// failed: not measured, as a worker crashed, was missing or said so itself; it says nothing of a node.
enum class Finding { fast, slow, hung, corrupt, failed };
inline bool bad(Finding f) {
  return f == Finding::slow || f == Finding::hung || f == Finding::corrupt;
}

// The nodes of one leaf switch; one group more for all whose leaf is unknown. In the job's order.
struct Group {
  std::string leaf;  // empty: unknown
  std::vector<std::size_t> members;
};

// One measurement as one of its two nodes sees it.
struct Entry {
  std::size_t partner = 0;
  Finding finding = Finding::failed;
  double busbw = 0;    // GB/s; 0: nothing was measured
  bool fresh = false;  // by workers started for it
  bool own = false;    // the partner is of the same group
};

class Ledger {
 public:
  explicit Ledger(const std::vector<Node>& nodes);

  void add(Pair pair, Finding finding, double busbw, bool fresh);
  void lose(std::size_t node) { states_[node].lost = true; }

  [[nodiscard]] std::size_t size() const { return states_.size(); }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] std::size_t group_of(std::size_t node) const { return states_[node].group; }
  [[nodiscard]] std::size_t place_of(std::size_t node) const { return states_[node].place; }  // in its group
  [[nodiscard]] const std::vector<Entry>& entries(std::size_t node) const { return states_[node].entries; }

  // Missing or crashed: not measured any more, never accused, and who was slow with it is not blamed for
  // that.
  [[nodiscard]] bool lost(std::size_t node) const { return states_[node].lost; }
  // Fast with anybody, once: a fast pair proves both its nodes.
  [[nodiscard]] bool cleared(std::size_t node) const { return states_[node].fast; }
  // Fast with a node of its own group: who is slow with it there is not so because of it or the leaf switch.
  [[nodiscard]] bool witness(std::size_t node) const { return states_[node].fast_own && !states_[node].lost; }
  // Has been paired with it, whatever came of it.
  [[nodiscard]] bool tried(std::size_t node, std::size_t partner) const;
  [[nodiscard]] bool tried_group(std::size_t node, std::size_t group) const;
  // Bad with somebody of its own group, and not cleared.
  [[nodiscard]] bool suspect(std::size_t node) const;
  // Never fast; bad with two partners of its own group, one of them a witness.
  [[nodiscard]] bool accused(std::size_t node) const;
  // Accused; bad with two witnesses; slow in three measurements with them (a dip outlasts one), hung or
  // corrupt in two; the last of these with workers started for it.
  [[nodiscard]] bool confirmed(std::size_t node) const;
  // More than half of a group's measured nodes are accused: it is not the nodes, and no more is to be found
  // out.
  [[nodiscard]] bool most_accused(const Group& group) const;
  // Nobody of the group is to blame: most of its measured nodes are suspects. Where leaves are unknown: more
  // than a quarter (and than four); or so many pairs of good nodes were slow (an eighth of the fast ones, and
  // more than are accused) that pairs must have met on shared uplinks: the list is in no order of leaves.
  [[nodiscard]] bool too_many(const Group& group) const;
  [[nodiscard]] bool most_suspect() const;  // most measured nodes of the whole job

 private:
  struct State {
    std::size_t group = 0;
    std::size_t place = 0;
    std::vector<Entry> entries;
    bool lost = false;
    bool fast = false;
    bool fast_own = false;
  };
  struct Count {
    std::size_t partners = 0;      // different ones of its own group it was bad with
    std::size_t witnesses = 0;     // of these
    std::size_t measurements = 0;  // with the witnesses
    bool slow = false;             // one of these measurements
    bool fresh = false;            // the last of them
  };
  [[nodiscard]] Count count(std::size_t node) const;

  std::vector<State> states_;
  std::vector<Group> groups_;
};

}  // namespace nccl_check::localization
