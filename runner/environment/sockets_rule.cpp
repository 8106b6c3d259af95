#include <algorithm>

#include "base/text.hpp"
#include "environment/builtin.hpp"

namespace nccl_check::environment {
namespace {

// NCCL's manual: without = names are prefixes (eth1 also takes eth10), and = counts at the list's start
// alone.
constexpr const char* exact_source =
    "built in: NCCL_SOCKET_IFNAME takes prefixes unless the list starts with =";
constexpr const char* family_source = "built in: NCCL_SOCKET_FAMILY, one family on all nodes of a job";

bool has(const std::vector<const node::Interface*>& interfaces, node::Address::Family family) {
  return std::any_of(interfaces.begin(), interfaces.end(), [&](const auto* i) {
    return std::any_of(i->addresses.begin(), i->addresses.end(),
                       [&](const auto& a) { return a.family == family && !a.link_local(); });
  });
}

}  // namespace

void set_sockets(const node::Facts& facts, const Situation& situation, Plan& plan) {
  using Family = node::Address::Family;
  const auto sockets = choose_sockets(facts, situation);
  plan.left_out.insert(plan.left_out.end(), sockets.left_out.begin(), sockets.left_out.end());
  if (sockets.interfaces.empty()) {
    plan.left_out.push_back({"NCCL_SOCKET_IFNAME", sockets.why + ": not set"});
    return;
  }
  std::vector<std::string> names;
  for (const auto* i : sockets.interfaces) names.push_back(i->name);
  plan.decisions.push_back(
      {"NCCL_SOCKET_IFNAME", Change::set, "=" + join(names, ","), sockets.why, exact_source, false});
  const bool v4 = has(sockets.interfaces, Family::v4), v6 = has(sockets.interfaces, Family::v6);
  if (!situation.family && !(v4 && v6)) return;
  const bool use_v4 = situation.family ? *situation.family == Family::v4 : v4;
  plan.decisions.push_back({"NCCL_SOCKET_FAMILY", Change::set, use_v4 ? "AF_INET" : "AF_INET6",
                            situation.family ? "all nodes of the job have it" : "addresses of both families",
                            family_source, false});
}

}  // namespace nccl_check::environment
