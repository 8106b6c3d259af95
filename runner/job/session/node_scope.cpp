#include "job/session/node_scope.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "verdict/judge.hpp"

namespace nccl_check::job {
namespace {

using engine::Figure;
using verdict::Class;
using verdict::Operation;

// Of the figure's ceiling. Two healthy H200s reach 0.66 of their links' 450 GB/s in an all_reduce of 256 MiB,
// 0.73 at 1 GiB; device memory, peers and host links 0.8 to 0.9 of theirs (tests/device/RESULTS.md).
double share_of(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::all_gather ? 0.55 : 0.7;
}
// Below, latency counts, and no share of the links is what a healthy node reaches.
constexpr std::uint64_t least_collective = 256U << 20U;
constexpr std::size_t most_named = 3;

// What names the part at fault comes before what only shows the effect.
int rank_of(Operation operation) {
  switch (operation) {
    case Operation::device_memory:
      return 0;
    case Operation::to_device:
    case Operation::from_device:
      return 1;
    case Operation::peer_copy:
      return 2;
    default:
      return 3;
  }
}

std::string key_of(const Figure& figure) {
  return fmt::format("{} {}", verdict::name(figure.operation), figure.subject);
}

std::string subject_of(const Figure& figure) {
  return figure.subject.empty() ? "" : printable(figure.subject, 80) + ": ";
}

// A host's memory is slow for want of a CPU, too; that says nothing of the memory.
bool is_slow(const Figure& figure, double limit, double& estimate) {
  const auto values =
      verdict::rates(figure.operation, figure.ranks, figure.samples.bytes, figure.samples.times);
  const auto judgement = verdict::judge(values, limit);
  if (!judgement || !judgement->slow()) return false;
  estimate = judgement->estimate;
  return estimate < (1 - figure.samples.starved) * limit;
}

std::string wrong_text(const Figure& figure) {
  return fmt::format("{}{}: {} wrong elements, first {}", subject_of(figure), verdict::name(figure.operation),
                     figure.samples.wrong, printable(figure.samples.first_wrong));
}

std::string limited(std::vector<std::string> texts) {
  const auto more = texts.size() > most_named ? texts.size() - most_named : 0;
  texts.resize(texts.size() - more);
  return join(texts, "; ") + (more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace

Limit figure_limit(const Figure& figure, const Limits& rules) {
  const auto rule = rules.find(figure.operation);
  if (rule != rules.end() && rule->second.busbw > 0) return rule->second;
  if (figure.ceiling <= 0 || (figure.ranks > 1 && figure.samples.bytes < least_collective)) return {};
  const double share = share_of(figure.operation);
  return {share * figure.ceiling, fmt::format("{} of {}", share, printable(figure.ceiling_text, 80))};
}

double figure_rate(const Figure& figure) {
  const auto values =
      verdict::rates(figure.operation, figure.ranks, figure.samples.bytes, figure.samples.times);
  const auto judgement = verdict::judge(values, 1);
  return judgement ? judgement->estimate : 0;
}

std::string figure_text(const Figure& figure, const Limit& limit, const std::string& device) {
  const bool collective = figure.ranks > 1;
  std::string text = fmt::format("{}{}{}{} {} GB/s{}", subject_of(figure), verdict::name(figure.operation),
                                 collective ? " " + format_size(figure.samples.bytes) : "",
                                 collective && figure.subject.empty()
                                     ? fmt::format(" on {} {}:", figure.ranks, printable(device, 60))
                                     : "",
                                 format_rate(figure_rate(figure)), collective ? " busbw" : "");
  text += limit.busbw > 0 ? fmt::format(", limit {} ({})", format_rate(limit.busbw), limit.source)
                          : ", no limit is known";
  if (!figure.remark.empty()) text += ", " + printable(figure.remark, 200);
  return text;
}

NodeFinding judge_figures(const std::vector<Figure>& figures, const Limits& rules,
                          const std::optional<std::set<std::string>>& before) {
  NodeFinding finding;
  std::vector<const Figure*> order;
  for (const auto& figure : figures) order.push_back(&figure);
  std::stable_sort(order.begin(), order.end(), [](const Figure* a, const Figure* b) {
    return rank_of(a->operation) < rank_of(b->operation);
  });
  std::vector<std::string> wrong;
  std::vector<std::string> slow;
  for (const auto* figure : order) {
    if (figure->samples.wrong > 0) {
      if (wrong.empty())
        finding.reason = fmt::format("corrupt {}{}, {} wrong", subject_of(*figure),
                                     verdict::name(figure->operation), figure->samples.wrong);
      wrong.push_back(wrong_text(*figure));
    }
    const auto limit = figure_limit(*figure, rules);
    double estimate = 0;
    if (limit.busbw <= 0 || !is_slow(*figure, limit.busbw, estimate)) continue;
    const auto key = key_of(*figure);
    if (before && !before->contains(key)) continue;
    finding.slow.insert(key);
    if (slow.empty()) {
      finding.busbw = estimate;
      finding.limit = limit.busbw;
      if (wrong.empty())
        finding.reason =
            fmt::format("slow {}{} {} < {} GB/s", subject_of(*figure), verdict::name(figure->operation),
                        format_rate(estimate), format_rate(limit.busbw));
    }
    slow.push_back(figure_text(*figure, limit));
  }
  finding.cls = !wrong.empty() ? Class::corrupt : !slow.empty() ? Class::slow : Class::pass;
  finding.detail = limited(wrong.empty() ? slow : wrong);
  return finding;
}

const Figure* main_figure(const std::vector<Figure>& figures) {
  const Figure* best = nullptr;
  for (const auto& figure : figures) {
    if (figure.ranks > 1) return &figure;
    const bool memory =
        figure.operation == Operation::device_memory || figure.operation == Operation::memory_copy;
    if (memory && (best == nullptr || figure_rate(figure) < figure_rate(*best))) best = &figure;
  }
  return best;
}

}  // namespace nccl_check::job
