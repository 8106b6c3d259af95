#pragma once
// What the figures that a node measured alone say of it. Pure.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "job/session/messages.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::job {

// By the site's rules; where they say nothing, a share of what the hardware carries by its own word.
Limit figure_limit(const engine::Figure& figure, const Limits& rules);

// GB/s of bus bandwidth: the median over the iterations; 0 where there are no samples.
double figure_rate(const engine::Figure& figure);

// "GPU 1 (0000:3b:00.0): device memory 4080 GB/s, limit 3440 (0.7 of 6144 bits at 2 x 3201 MHz)". `device`
// says what a collective's ranks are: "NVIDIA H200".
std::string figure_text(const engine::Figure& figure, const Limit& limit, const std::string& device = "GPUs");

struct NodeFinding {
  verdict::Class cls = verdict::Class::pass;  // or slow, or corrupt
  std::string detail;                         // of what is not a pass, the most telling first
  std::string reason;                         // the same, short, for a drain
  double busbw = 0;
  double limit = 0;
  std::set<std::string> slow;  // the figures that are, by operation and subject
};

// `before`: what was slow in an earlier measurement; only that can be slow now, since one measurement proves
// nothing. Nothing: this is the first. Wrong data needs no second one.
NodeFinding judge_figures(const std::vector<engine::Figure>& figures, const Limits& rules,
                          const std::optional<std::set<std::string>>& before);

// The one that stands for the node in a line that has room for one: the collective, else the slowest memory.
const engine::Figure* main_figure(const std::vector<engine::Figure>& figures);

}  // namespace nccl_check::job
