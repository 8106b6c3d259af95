#include "environment/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "environment/match.hpp"

namespace nccl_check::environment {
namespace {

class Site {
 public:
  Site(const Situation& situation, Plan& plan) : situation_(situation), plan_(plan) {}

  void apply(const Rule& rule) {
    for (const auto& [variable, value] : rule.set)
      if (taken_.insert(variable).second) set(rule, variable, value);
    for (const auto& variable : rule.unset)
      if (taken_.insert(variable).second) put(rule, variable, Change::unset, "");
    for (const auto& [variable, value] : rule.prepend) prepend(rule, variable, value);
  }

 private:
  void set(const Rule& rule, const std::string& variable, const std::string& value) {
    // A stale or missing topology or graph file makes good hardware slow.
    const bool file = variable.ends_with("_FILE") && value.starts_with('/') &&
                      !variable.ends_with("DEBUG_FILE") && variable.find("DUMP") == variable.npos;
    if (file && !situation_.exists(value)) {
      plan_.left_out.push_back(
          {variable, fmt::format("{} names {}, which is not there", rule.source, value)});
      return;
    }
    put(rule, variable, Change::set, value);
  }

  void put(const Rule& rule, const std::string& variable, Change change, const std::string& value) {
    std::erase_if(plan_.decisions, [&](const Decision& d) { return d.variable == variable; });
    std::erase_if(plan_.left_out, [&](const LeftOut& l) { return l.what == variable; });
    plan_.decisions.push_back({variable, change, value, why(rule), rule.source, true});
  }

  void prepend(const Rule& rule, const std::string& variable, const std::string& value) {
    const auto found = std::find_if(plan_.decisions.begin(), plan_.decisions.end(),
                                    [&](const Decision& d) { return d.variable == variable; });
    if (found == plan_.decisions.end()) return put(rule, variable, Change::prepend, value);
    if (found->change == Change::unset) return;
    // A built-in folder comes behind the site's; earlier rules of the site's before later ones.
    found->value = found->site ? found->value + ":" + value : value + ":" + found->value;
    found->source = found->site ? found->source + ", " + rule.source : rule.source;
    found->site = true;
  }

  static std::string why(const Rule& rule) { return rule.why.empty() ? "the site's rule" : rule.why; }

  const Situation& situation_;
  Plan& plan_;
  std::set<std::string> taken_;
};

}  // namespace

void apply_site(const std::vector<Rule>& rules, const node::Facts& facts, const Situation& situation,
                Plan& plan) {
  Site site(situation, plan);
  for (const auto& rule : rules) {
    const auto fits = fit(rule.match, facts, situation);
    if (fits.fits)
      site.apply(rule);
    else if (fits.unknown)
      plan.left_out.push_back({"the rule at " + rule.source, fits.why});
  }
}

}  // namespace nccl_check::environment
