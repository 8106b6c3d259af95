#pragma once
// What the pairs say together: decision 5's truth table, read from the ledger.
#include <string>
#include <vector>

#include "job/localization/ledger.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::localization {

enum class Kind {
  one_node,      // nothing lies between nodes
  culprit,       // at least one node is to blame
  path,          // no node is; a path or a leaf's uplinks are named
  site,          // most nodes are slow: the site, nobody
  path_or_site,  // no fast pair at all, or every pair fast though the nodes together are not: nobody
  unresolved,    // stopped, or too few partners, before the rule was met: nobody
};

struct Partner {
  std::string node;
  verdict::Class cls = verdict::Class::slow;
  double busbw = 0;      // GB/s; 0: hung before anything was measured
  bool own_leaf = true;  // or of a group whose leaf is unknown
};

// A node that is not cleared: a culprit, or one of which too little is known.
struct Suspect {
  std::size_t index = 0;
  std::string node;
  // The milder one where its partners saw different ones; untested: bad with nobody.
  verdict::Class cls = verdict::Class::slow;
  std::vector<Partner> partners;  // that it was bad with; of a culprit the witnesses alone
  double busbw = 0;               // GB/s, the best with any of these; 0: nothing was measured
  // "send/recv 11.2 GB/s with n1 and n4", "send/recv hung with n1 and n4"; empty without partners.
  std::string measured;
  std::string why;  // unresolved only: "no two good partners on its leaf switch s3"
};

// Slow though both its ends are good.
struct Path {
  std::string name;  // "n1-n2", "leaf switch s3", "uplinks of leaf switch s3"
  verdict::Class cls = verdict::Class::slow;
  double busbw = 0;  // GB/s, the best of it
  std::string text;  // "n1-n2: send/recv 11.2 GB/s, both are fast with others"
};

struct Outcome {
  Kind kind = Kind::unresolved;
  std::string summary;  // one sentence: why it is this kind
  std::vector<Suspect> culprits;
  std::vector<Suspect> unresolved;
  std::vector<Path> paths;
  std::vector<std::size_t> cleared;
  std::vector<std::size_t> missing;  // to be called untested; nobody is accused for them
};

// `all_nodes`: what the round with all nodes said. `stopped`: rounds were left when the caller ended it.
Outcome conclude(const std::vector<Node>& nodes, const Ledger& ledger, verdict::Class all_nodes,
                 bool stopped);

}  // namespace nccl_check::localization
