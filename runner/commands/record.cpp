#include "commands/record.hpp"

#include <nlohmann/json.hpp>

namespace nccl_check::commands {
namespace {

using nlohmann::json;
constexpr std::size_t most_bytes = 60'000;  // leaves room below the 64 KiB that readers take

std::string text_of(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string make_record(const RecordFacts& facts, const CheckOutcome& outcome) {
  json culprits = json::array();
  for (const auto& node : outcome.verdict.nodes)
    if (node.culprit)
      culprits.push_back({{"node", node.node},
                          {"verdict", verdict::name(node.cls)},
                          {"detail", node.detail},
                          {"reason", node.reason},
                          {"partners", node.partners},
                          {"busbw", node.busbw},
                          {"limit", node.limit}});
  json record{{"schema", "nccl-check.verdict"},
              {"version", 1},
              {"job", facts.job},
              {"step", facts.step ? json(*facts.step) : json()},
              {"restart", facts.restart},
              {"uid", facts.uid},
              {"node", facts.node},
              {"nodes", facts.nodes},
              {"spec", facts.spec},
              {"time", facts.time},
              {"seconds", outcome.seconds},
              {"engine", outcome.description ? outcome.description->engine : ""},
              {"versions", outcome.description ? json(outcome.description->versions) : json::object()},
              {"devices", outcome.description ? json(outcome.description->devices) : json::array()},
              {"mode", facts.mode},
              {"verdict", verdict::name(outcome.verdict.cls)},
              {"summary", outcome.verdict.summary},
              {"action", outcome.action},
              {"job_fails", outcome.job_fails},
              {"busbw", outcome.verdict.busbw},
              {"limit", outcome.verdict.limit},
              {"reused", facts.reused},
              {"node_verdict", verdict::name(outcome.own ? outcome.own->cls : verdict::Class::pass)},
              {"lines", outcome.lines},
              {"culprits", culprits}};
  // Only what grows with the number of nodes can make it too long.
  for (const char* key : {"culprits", "lines"}) {
    auto& list = record[key];
    while (text_of(record).size() > most_bytes && list.size() > 1) {
      const std::size_t keep = list.size() / 2;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(keep), list.end());
      record["cut"] = true;
    }
  }
  return text_of(record);
}

}  // namespace nccl_check::commands
