#include "report/lines.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace nccl_check::report {
namespace {

std::string listed(const std::vector<std::string>& names) {
  return compress_hostlist(names);
}

}  // namespace

std::vector<std::string> lines(const verdict::JobVerdict& verdict, const std::vector<std::string>& nodes,
                               const std::map<std::string, std::string>& done, Fate fate,
                               const std::vector<std::string>& out) {
  std::vector<std::string> text;
  // The nodes that share class and words share a line, so that a thousand missing peers are one.
  struct Group {
    const verdict::NodeVerdict* first;
    std::vector<std::string> names;
    std::string action;
  };
  std::vector<Group> groups;
  for (const auto& node : verdict.nodes) {
    const auto found = done.find(node.node);
    const std::string action = found == done.end() ? "" : found->second;
    bool joined = false;
    for (auto& group : groups)
      if (group.first->cls == node.cls && group.first->detail == node.detail && group.action == action) {
        group.names.push_back(node.node);
        joined = true;
        break;
      }
    if (!joined) groups.push_back({&node, {node.node}, action});
  }
  for (const auto& group : groups)
    text.push_back(fmt::format("{}{} {}: {}{}{}", prefix, verdict::name(group.first->cls),
                               listed(group.names), group.first->detail, group.action.empty() ? "" : ": ",
                               group.action));
  const std::string those = out.empty() ? "" : listed(out);
  switch (fate) {
    case Fate::requeued:
      text.push_back(out.empty() ? fmt::format("{}the job is requeued: {}", prefix, verdict.summary)
                                 : fmt::format("{}the job is requeued without {}", prefix, those));
      break;
    case Fate::held:
      text.push_back(fmt::format("{}the job is requeued and held: {}; release it with scontrol release",
                                 prefix,
                                 out.empty() ? verdict.summary : fmt::format("it asks for {}", those)));
      break;
    case Fate::cancelled:
      text.push_back(out.empty() ? fmt::format("{}the job is cancelled: {}", prefix, verdict.summary)
                                 : fmt::format("{}the job is cancelled: {} {} out, start it again", prefix,
                                               those, out.size() == 1 ? "is" : "are"));
      break;
    case Fate::gone:
      text.push_back(fmt::format("{}the job had ended before it could be failed", prefix));
      break;
    case Fate::runs:
      text.push_back(
          fmt::format("{}{} {}: {}", prefix, verdict::name(verdict.cls), listed(nodes), verdict.summary));
      break;
  }
  return text;
}

std::string drain_reason(const verdict::NodeVerdict& node, unsigned job) {
  constexpr std::size_t most = 200;
  const std::string tail = fmt::format(", job {}", job);
  std::string text = fmt::format("{}{}", prefix, printable(node.reason, most));
  if (text.size() + tail.size() > most) text.resize(most - tail.size());
  return text + tail;
}

}  // namespace nccl_check::report
