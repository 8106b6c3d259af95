#pragma once
// Calls about nodes.
#include <cstdint>
#include <string>
#include <vector>

#include "slurm/answer.hpp"

namespace nccl_check::slurm {

// Every reason of ours starts so; a drain with another one is somebody else's and is never touched.
constexpr const char* our_prefix = "nccl-check:";

// {"addresses": {"n1": "10.0.0.1"}, "unknown": ["x"]}: NodeAddr from slurm.conf, with no RPC; with `ask`,
// slurmctld is asked for those that are not in it (dynamic and cloud nodes).
Answer addresses(const std::vector<std::string>& nodes, bool ask);

// {"leaves": {"s1": ["n1", "n2"]}}: the leaf switch (or block) of each node asked for, of every node where
// none is. Empty where the site has no topology.
Answer topology(const std::vector<std::string>& nodes);
// The pure part: what scontrol prints, one switch or block a line.
Json leaves(const std::string& printed, const std::vector<std::string>& nodes);

// {"node", "state": ["idle", "drain"], "reason", "reason_time", "reason_uid", "partitions": [...]}
Answer node(const std::string& name);
std::vector<std::string> state_words(std::uint32_t state);

// {"jobs": [12, 14]}: every job that runs or completes there.
Answer jobs_on(const std::string& name);

// {"done": true, "replaced": false}, or {"done": false, "why": "...", "out": true} with "out" where the node is drained
// all the same: never over a reason that is not ours.
Answer drain(const std::string& name, const std::string& reason);

// The same answers: only our own drain is lifted, a node that is down stays down.
Answer undrain(const std::string& name);

// {"nodes": [{"node", "reason", "time", "partitions": [...]}], "partitions": {"main": 8}}: drained nodes
// whose reason starts so, and how many nodes each partition has.
Answer reasons(const std::string& prefix);

}  // namespace nccl_check::slurm
