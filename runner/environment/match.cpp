#include "environment/match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>

namespace nccl_check::environment {
namespace {

constexpr Version oldest{0, 0, 0}, newest{INT_MAX, 0, 0};

Version from(const Match& match) {
  return match.nccl_from.value_or(oldest);
}
Version before(const Match& match) {
  return match.nccl_before.value_or(newest);
}

bool same_or_any(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || a == b;
}

}  // namespace

bool contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

bool part_of(const std::string& part, const std::string& whole) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return part.empty() ||
         std::search(whole.begin(), whole.end(), part.begin(), part.end(), same) != whole.end();
}

bool overlap(const Match& a, const Match& b) {
  const bool nodes =
      a.nodes.empty() || b.nodes.empty() ||
      std::any_of(a.nodes.begin(), a.nodes.end(), [&](const auto& n) { return contains(b.nodes, n); });
  const bool gpu = part_of(a.gpu, b.gpu) || part_of(b.gpu, a.gpu);
  const bool fabric = !a.fabric || !b.fabric || *a.fabric == *b.fabric;
  const bool versions = std::max(from(a), from(b)) < std::min(before(a), before(b));
  return nodes && same_or_any(a.partition, b.partition) && gpu && fabric && versions;
}

bool covers(const Match& outer, const Match& inner) {
  const bool nodes =
      outer.nodes.empty() ||
      (!inner.nodes.empty() && std::all_of(inner.nodes.begin(), inner.nodes.end(),
                                           [&](const auto& n) { return contains(outer.nodes, n); }));
  const bool partition = outer.partition.empty() || outer.partition == inner.partition;
  const bool fabric = !outer.fabric || outer.fabric == inner.fabric;
  const bool versions = from(outer) <= from(inner) && before(outer) >= before(inner);
  return nodes && partition && part_of(outer.gpu, inner.gpu) && fabric && versions;
}

Fit fit(const Match& match, const node::Facts& facts, const Situation& situation) {
  if (!match.nodes.empty()) {
    if (situation.node.empty()) return {false, true, "this node's name is not known"};
    if (!contains(match.nodes, situation.node)) return {false, false, "it is for other nodes"};
  }
  if (!match.partition.empty()) {
    if (situation.partition.empty())
      return {false, true,
              fmt::format("it is for partition {}, and the job's is not known", match.partition)};
    if (match.partition != situation.partition)
      return {false, false, "it is for partition " + match.partition};
  }
  if (!match.gpu.empty()) {
    if (!facts.gpus) return {false, true, fmt::format("it is for {}, and the GPUs are not known", match.gpu)};
    const bool one = std::any_of(facts.gpus->begin(), facts.gpus->end(),
                                 [&](const auto& gpu) { return part_of(match.gpu, gpu.model); });
    if (!one) return {false, false, "it is for " + match.gpu};
  }
  if (match.fabric && *match.fabric != facts.fabric)
    return {false, facts.fabric == node::Fabric::unknown,
            fmt::format("it is for {}", node::name(*match.fabric))};
  if (match.nccl_from || match.nccl_before) {
    if (!situation.nccl) return {false, true, "it depends on NCCL's version, which is not known"};
    if (*situation.nccl < from(match) || *situation.nccl >= before(match))
      return {false, false, "it is for another version of NCCL"};
  }
  return {true, false, ""};
}

}  // namespace nccl_check::environment
