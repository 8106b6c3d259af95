#include "simulate.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

#include "job/localization/localization.hpp"
#include "verdict/judge.hpp"

namespace nccl_check::simulation {
namespace {

constexpr double limit = 1;  // a healthy node just reaches it

// Each node's deviation from iteration to iteration.
class Nodes {
 public:
  Nodes(const Scenario& scenario, Random& random)
      : random_(random),
        noise_(1, scenario.noise),
        dip_(scenario.dip),
        length_(scenario.dip_length),
        dipped_(scenario.nodes.size()) {}

  double factor(std::size_t node) {
    const double noise = std::max(0.5, noise_(random_));
    if (dip_ == 0) return noise;
    dipped_[node] = chance_(random_) < (dipped_[node] ? 1 - 1 / length_ : dip_);
    return dipped_[node] ? noise / 2 : noise;
  }

  // Between rounds lies more time than a dip lasts.
  void pause() {
    if (dip_ == 0) return;
    for (auto&& dipped : dipped_) dipped = chance_(random_) < length_ * dip_ / (1 + length_ * dip_);
  }

 private:
  Random& random_;
  std::normal_distribution<double> noise_;
  std::uniform_real_distribution<double> chance_{0, 1};
  double dip_;
  double length_;
  std::vector<bool> dipped_;
};

verdict::Judgement must(Result<verdict::Judgement> judgement) {
  if (judgement) return *judgement;
  std::cerr << judgement.error().text() << '\n';
  std::exit(2);
}

bool ring_triggers(const Scenario& scenario, Nodes& nodes) {
  const std::size_t n = scenario.nodes.size();
  std::vector<Flow> ring;
  for (std::size_t i = 0; i < n; ++i) ring.push_back({i, (i + 1) % n});
  const std::vector<double> rates = scenario.fabric.rates(ring);
  const double rate = *std::min_element(rates.begin(), rates.end());
  std::vector<double> samples;
  for (int iteration = 0; iteration < 5; ++iteration) {
    double slowest = 1;
    for (std::size_t i = 0; i < n; ++i) slowest = std::min(slowest, nodes.factor(i));
    samples.push_back(rate * slowest);
  }
  return must(verdict::judge_trigger(samples, limit)).slow();
}

localization::Measurement measure(const localization::Pair& pair, double rate, Nodes& nodes) {
  std::vector<double> samples;
  verdict::Judgement judgement;
  while (judgement.more) {
    samples.push_back(rate * std::min(nodes.factor(pair.a), nodes.factor(pair.b)));
    judgement = must(verdict::judge(samples, limit));
  }
  const auto finding = judgement.slow() ? localization::Finding::slow : localization::Finding::fast;
  return {pair, finding, judgement.estimate, judgement.samples, {}};
}

// Which bad nodes the rule can reach at all: two good ones in its leaf, and not most of it bad.
std::set<std::size_t> within_reach(const Scenario& scenario) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> leaves;  // nodes, bad ones
  for (std::size_t i = 0; i < scenario.nodes.size(); ++i) {
    ++leaves[scenario.nodes[i].leaf].first;
    leaves[scenario.nodes[i].leaf].second += scenario.bad.count(i);
  }
  std::set<std::size_t> out;
  for (const std::size_t node : scenario.bad) {
    const auto [all, bad] = leaves[scenario.nodes[node].leaf];
    if (all - bad >= 2 && 2 * bad <= all) out.insert(node);
  }
  return out;
}

}  // namespace

Tally simulate(const Scenario& scenario, Random& random) {
  Tally out;
  Nodes nodes(scenario, random);
  out.triggered = ring_triggers(scenario, nodes);
  localization::Localization search(scenario.nodes);
  while (const auto round = search.next_round()) {
    const bool pairing =
        round->stage == localization::Stage::inside || round->stage == localization::Stage::across;
    ++(pairing ? out.pairing : out.confirming);
    nodes.pause();
    std::vector<Flow> flows;
    for (const auto& [a, b] : round->pairs) {
      flows.push_back({a, b});
      flows.push_back({b, a});
    }
    const std::vector<double> rates = scenario.fabric.rates(flows);
    for (std::size_t p = 0; p < round->pairs.size(); ++p) {
      const double rate = std::min(rates[2 * p], rates[2 * p + 1]);
      if (const Status status = search.record(measure(round->pairs[p], rate, nodes)); !status) {
        std::cerr << status.error().text() << '\n';
        std::exit(2);
      }
    }
  }
  const localization::Outcome outcome = search.outcome();
  const std::set<std::size_t> reach = within_reach(scenario);
  out.bad = scenario.bad.size();
  out.beyond = out.bad - reach.size();
  std::size_t found = 0;
  for (const auto& culprit : outcome.culprits) {
    out.innocents += 1 - scenario.bad.count(culprit.index);
    found += out.triggered ? reach.count(culprit.index) : 0;
  }
  out.missed = reach.size() - found;
  for (const auto& suspect : outcome.unresolved) out.unresolved += 1 - scenario.bad.count(suspect.index);
  return out;
}

}  // namespace nccl_check::simulation
