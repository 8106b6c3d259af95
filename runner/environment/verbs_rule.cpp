#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "environment/builtin.hpp"

namespace nccl_check::environment {
namespace {

// nccl PR#236: mlx5_1 also takes mlx5_11.
constexpr const char* exact_source = "built in: NCCL_IB_HCA takes prefixes unless the list starts with =";
constexpr const char* gid_source = "built in: NCCL finds the GID by itself since 2.21";
constexpr const char* vfs_source = "built in: Crusoe's nccl.conf for virtual functions";
constexpr Version finds_gid{2, 21, 0};

std::string entry(const ChosenPort& p) {
  return p.device->ports.size() > 1 ? fmt::format("{}:{}", p.device->name, p.port->number) : p.device->name;
}

// RoCE v2 by IPv4, else by an IPv6 address that is routed; nothing: there is none.
std::optional<unsigned> gid_of(const node::Port& port) {
  for (const auto& gid : port.gids)
    if (gid.type == "RoCE v2" && gid.ipv4()) return gid.index;
  for (const auto& gid : port.gids)
    if (gid.type == "RoCE v2" && !gid.address.link_local()) return gid.index;
  return std::nullopt;
}

void set_gid(const Hcas& hcas, const Situation& situation, Plan& plan) {
  const bool roce = std::any_of(hcas.ports.begin(), hcas.ports.end(),
                                [](const auto& p) { return p.port->layer == node::LinkLayer::ethernet; });
  if (!roce) return;
  const auto leave = [&](std::string why) { plan.left_out.push_back({"NCCL_IB_GID_INDEX", std::move(why)}); };
  if (!situation.nccl)
    return leave("needed with RoCE before NCCL 2.21 alone, and NCCL's version is not known");
  if (*situation.nccl >= finds_gid)
    return leave(fmt::format("NCCL {} finds it by itself", situation.nccl->text()));
  std::set<std::optional<unsigned>> indices;
  for (const auto& p : hcas.ports) indices.insert(gid_of(*p.port));
  if (indices.count(std::nullopt) != 0) return leave("a port has no RoCE v2 GID that is not link-local");
  if (indices.size() > 1)
    return leave("the ports have their RoCE v2 GIDs at different places: no one index is right");
  plan.decisions.push_back({"NCCL_IB_GID_INDEX", Change::set, fmt::format("{}", **indices.begin()),
                            "the RoCE v2 GID that is not link-local, on every port", gid_source, false});
}

void set_vfs(const Hcas& hcas, Plan& plan) {
  const auto is_virtual = [](const auto& p) { return p.device->function.virtual_function == true; };
  if (std::any_of(hcas.ports.begin(), hcas.ports.end(), is_virtual))
    plan.decisions.push_back({"NCCL_IB_MERGE_VFS", Change::set, "0",
                              "the HCAs are virtual functions: each is a NIC of its own", vfs_source, false});
}

}  // namespace

void set_verbs(const node::Facts& facts, const Situation& situation, Plan& plan) {
  const auto hcas = choose_hcas(facts);
  plan.left_out.insert(plan.left_out.end(), hcas.left_out.begin(), hcas.left_out.end());
  if (hcas.ports.empty()) {
    plan.left_out.push_back({"NCCL_IB_HCA", "no port can be used: not set"});
    plan.notes.emplace_back(
        "no RDMA port can be used: between nodes NCCL would go over sockets, in silence (NCCL_IB_DISABLE=1 "
        "says that "
        "this is meant; NCCL_NET=IB makes it fail instead)");
    return;
  }
  std::vector<std::string> entries;
  for (const auto& p : hcas.ports) entries.push_back(entry(p));
  plan.decisions.push_back(
      {"NCCL_IB_HCA", Change::set, "=" + join(entries, ","), hcas.why, exact_source, false});
  set_gid(hcas, situation, plan);
  set_vfs(hcas, plan);
}

}  // namespace nccl_check::environment
