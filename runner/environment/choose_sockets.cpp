#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "environment/choice.hpp"
#include "environment/match.hpp"

namespace nccl_check::environment {
namespace {

using node::Interface;
using node::Kind;
using Interfaces = std::vector<const Interface*>;

void keep(Sockets& sockets, const std::function<std::string(const Interface&)>& objection) {
  Interfaces kept;
  for (const auto* i : sockets.interfaces) {
    auto why = objection(*i);
    if (why.empty())
      kept.push_back(i);
    else
      sockets.left_out.push_back({i->name, std::move(why)});
  }
  sockets.interfaces = std::move(kept);
}

void keep_if(Sockets& sockets, const std::string& why, const std::function<bool(const Interface&)>& good) {
  if (std::none_of(sockets.interfaces.begin(), sockets.interfaces.end(),
                   [&](const auto* i) { return good(*i); }))
    return;
  keep(sockets, [&](const Interface& i) { return good(i) ? std::string() : why; });
}

std::string by_kind(const Interface& i) {
  switch (i.kind) {
    case Kind::loopback:
      return "loopback";
    case Kind::veth:
      return "veth: leads to a container of this node";
    case Kind::tunnel:
      return "a tunnel or tap" + (i.type.empty() ? "" : " (" + i.type + ")");
    case Kind::bridge:
      return i.hardware ? "" : "a bridge without hardware: leads to containers of this node";
    case Kind::virtual_device:
      return "virtual" + (i.type.empty() ? "" : " (" + i.type + ")");
    case Kind::bond:
    case Kind::vlan:
      return i.hardware ? "" : "without hardware below";
    case Kind::unknown:
      return "what it is is not known";
    case Kind::ethernet:
    case Kind::infiniband:
      break;
  }
  return i.usb ? "on USB: mostly a BMC's" : "";
}

std::string by_state(const Interface& i) {
  if (!i.master.empty() || i.enslaved)
    return "a port of " + (i.master.empty() ? "another interface" : i.master);
  if (!i.up && !i.origin.unknown("up")) return "down";
  if (!i.carrier && !i.origin.unknown("carrier")) return "no carrier";
  if (!i.addresses_known) return "";
  if (i.addresses.empty()) return "no address";
  const bool one =
      std::any_of(i.addresses.begin(), i.addresses.end(), [](const auto& a) { return !a.link_local(); });
  return one ? "" : "link-local addresses only";
}

// Two hosts at most are in the network of each address.
bool point_to_point(const Interface& i) {
  return !i.addresses.empty() && std::all_of(i.addresses.begin(), i.addresses.end(), [](const auto& a) {
    return a.link_local() || a.prefix == (a.family == node::Address::Family::v4 ? 31U : 127U);
  });
}

bool rdma_behind(const Interface& i) {
  return !i.domains.empty() || i.kind == Kind::infiniband;
}

void keep_fastest(Sockets& sockets, const node::Facts& facts) {
  double best = 0;
  bool all_known = true;
  for (const auto* i : sockets.interfaces) {
    best = std::max(best, speed_of(*i, facts));
    all_known = all_known && speed_of(*i, facts) > 0;
  }
  if (!all_known) keep_if(sockets, "no RDMA device behind it, as others have", rdma_behind);
  best = 0;
  for (const auto* i : sockets.interfaces) best = std::max(best, speed_of(*i, facts));
  keep(sockets, [&](const Interface& i) {
    const double speed = speed_of(i, facts);
    if (speed == 0 || speed >= best) return std::string();
    return fmt::format("{}, others have {}", rate_text(speed), rate_text(best));
  });
}

// The order in which GPUs have them near, then the kernel's.
std::size_t nearness(const Interface& i, const node::Facts& facts) {
  std::size_t rank = 0;
  for (const auto& gpu : facts.gpus.value_or(std::vector<node::Gpu>{})) {
    for (const auto& near : gpu.nearest)
      if (near.name == i.name || contains(i.domains, near.name)) return rank;
    ++rank;
  }
  return rank;
}

// RDMA carries the data, and NCCL's bootstrap uses one interface: the same rail on every node, by PCI.
void keep_first(Sockets& sockets, const node::Facts& facts) {
  const auto first = *std::min_element(
      sockets.interfaces.begin(), sockets.interfaces.end(), [&](const auto* a, const auto* b) {
        const auto near_a = nearness(*a, facts), near_b = nearness(*b, facts);
        return near_a != near_b ? near_a < near_b : a->pci < b->pci;
      });
  keep(sockets, [&](const Interface& i) {
    return &i == first ? std::string() : fmt::format("as good as {}: one is enough beside RDMA", first->name);
  });
}

void keep_family(Sockets& sockets, const Situation& situation) {
  using Family = node::Address::Family;
  const auto has = [](const Interface& i, Family family) {
    return !i.addresses_known || std::any_of(i.addresses.begin(), i.addresses.end(), [&](const auto& a) {
      return a.family == family && !a.link_local();
    });
  };
  const bool v4 = std::any_of(sockets.interfaces.begin(), sockets.interfaces.end(),
                              [&](const auto* i) { return has(*i, Family::v4); });
  const auto family = situation.family.value_or(v4 ? Family::v4 : Family::v6);
  keep(sockets, [&](const Interface& i) {
    return has(i, family) ? std::string()
                          : fmt::format("no {} address", family == Family::v4 ? "IPv4" : "IPv6");
  });
}

std::string reason(const Sockets& sockets, const node::Facts& facts, const Situation& situation) {
  const auto& first = *sockets.interfaces.front();
  std::string out =
      sockets.interfaces.size() > 1 ? fmt::format("{} interfaces, ", sockets.interfaces.size()) : "";
  out += node::name(first.kind);
  if (const double speed = speed_of(first, facts); speed > 0) out += ", " + rate_text(speed);
  if (is_cxi(first)) out += ", Slingshot";
  if (rdma_behind(first) && !first.domains.empty() && !is_cxi(first))
    out += ", " + join(first.domains, " ") + " behind it";
  if (!situation.proved.empty()) out += ", reached all nodes of the job";
  if (!first.addresses_known && first.addresses.empty()) out += "; its addresses are not known";
  return out;
}

}  // namespace

double speed_of(const Interface& interface, const node::Facts& facts) {
  if (interface.speed > 0 || interface.kind != Kind::infiniband || !facts.rdma) return interface.speed;
  for (const auto& device : *facts.rdma)
    for (const auto& port : device.ports)
      if (port.netdev == interface.name) return port.rate;
  return 0;
}

Sockets choose_sockets(const node::Facts& facts, const Situation& situation) {
  Sockets out;
  if (!facts.interfaces) {
    out.why = "the interfaces are not known";
    return out;
  }
  for (const auto& i : *facts.interfaces) out.interfaces.push_back(&i);
  keep(out, by_kind);
  keep(out, by_state);
  keep_family(out, situation);
  if (!situation.proved.empty())
    keep(out, [&](const Interface& i) {
      return contains(situation.proved, i.name) ? std::string() : "does not reach all nodes of the job";
    });
  keep_if(out, "a link between two hosts (/31), and others have a network",
          [](const Interface& i) { return !point_to_point(i); });
  const bool slingshot = facts.fabric == node::Fabric::cxi;
  if (slingshot) keep_if(out, "not the Slingshot fabric", [](const Interface& i) { return is_cxi(i); });
  keep_fastest(out, facts);
  const bool rdma = std::all_of(out.interfaces.begin(), out.interfaces.end(),
                                [](const auto* i) { return rdma_behind(*i); });
  if (out.interfaces.size() > 1 && !slingshot && situation.proved.empty()) {
    if (rdma) {
      keep_first(out, facts);
    } else {
      for (const auto* i : out.interfaces)
        out.left_out.push_back(
            {i->name, "as good as others, and nothing shows which one reaches the job's nodes"});
      out.interfaces.clear();
      out.why = "nothing is clearly right";
      return out;
    }
  }
  constexpr std::size_t most = 16;  // NCCL's MAX_IFS
  if (out.interfaces.size() > most) out.interfaces.resize(most);
  out.why = out.interfaces.empty() ? "no interface leads to other nodes" : reason(out, facts, situation);
  return out;
}

}  // namespace nccl_check::environment
