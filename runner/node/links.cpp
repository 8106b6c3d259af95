// The list of interfaces where there is no kernel to ask: of a recorded tree, and of a copy of somebody's
// /sys and /proc.
#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.hpp"
#include "node/interfaces.hpp"

namespace nccl_check::node {
namespace {

using nlohmann::json;

constexpr const char* in6 = "/proc/net/if_inet6";

Scope scope_called(const std::string& word) {
  for (const auto scope : {Scope::host, Scope::link, Scope::site, Scope::global})
    if (word == name(scope)) return scope;
  return Scope::unknown;
}

Address address_of(const json& entry) {
  auto address = parse_address(entry.at("address").get<std::string>()).value_or(Address{});
  address.prefix = entry.at("prefix").get<unsigned>();
  address.scope = scope_called(entry.at("scope").get<std::string>());
  return address;
}

Link link_of(const json& entry) {
  Link link;
  link.name = entry.at("name").get<std::string>();
  link.index = entry.at("index").get<unsigned>();
  link.up = entry.at("up").get<bool>();
  link.running = entry.at("running").get<bool>();
  link.loopback = entry.at("loopback").get<bool>();
  link.type = entry.value("type", "");
  if (entry.contains("mtu")) link.mtu = entry.at("mtu").get<unsigned>();
  for (const auto& address : entry.at("addresses")) link.addresses.push_back(address_of(address));
  return link;
}

Result<std::vector<Link>> parse_links(const std::string& text, const std::string& path) try {
  std::vector<Link> links;
  for (const auto& entry : json::parse(text)) links.push_back(link_of(entry));
  return links;
} catch (const json::exception& error) {
  return Error{std::string("is not what a recording has: ") + error.what(), path, "record the node again"};
}

// "fd000000000000000000000000000002 04 40 00 80     eth0": address, index, prefix, scope (20: link), flags.
void take_inet6(Tree& tree, std::vector<Link>& links) {
  std::istringstream lines(tree.text(in6).value_or(""));
  std::string digits, index, prefix, scope, flags, name;
  while (lines >> digits >> index >> prefix >> scope >> flags >> name) {
    const auto bytes = from_hex(digits);
    const auto link = std::find_if(links.begin(), links.end(), [&](const Link& l) { return l.name == name; });
    if (!bytes || bytes->size() != 16 || link == links.end()) continue;
    Address address;
    address.family = Address::Family::v6;
    std::copy(bytes->begin(), bytes->end(), address.bytes.begin());
    std::from_chars(prefix.data(), prefix.data() + prefix.size(), address.prefix, 16);
    address.scope = scope == "20" ? Scope::link : scope == "10" ? Scope::host : Scope::global;
    link->addresses.push_back(address);
  }
}

std::vector<Link> by_files(Tree& tree) {
  std::vector<Link> links;
  for (const auto& name : tree.entries("/sys/class/net").value_or(std::vector<std::string>{})) {
    const std::string folder = "/sys/class/net/" + name;
    // Files stand beside the links there (bonding_masters).
    if (!tree.points_to(folder) && !tree.there(folder + "/ifindex")) continue;
    Link link;
    link.name = name;
    link.from = folder + "/flags";
    link.index = static_cast<unsigned>(tree.number(folder + "/ifindex").value_or(0));
    const auto flags = tree.number(folder + "/flags");
    const auto state = tree.line(folder + "/operstate").value_or("unknown");
    link.flags_known = flags.has_value();
    link.up = flags ? (*flags & IFF_UP) != 0 : state == "up";
    link.running = state == "up";
    link.loopback = flags && (*flags & IFF_LOOPBACK) != 0;
    link.addresses_known = false;
    links.push_back(std::move(link));
  }
  take_inet6(tree, links);
  return links;
}

}  // namespace

std::string links_text(const std::vector<Link>& links) {
  json all = json::array();
  for (const auto& link : links) {
    json entry{{"name", link.name},       {"index", link.index},       {"up", link.up},
               {"running", link.running}, {"loopback", link.loopback}, {"addresses", json::array()}};
    if (!link.type.empty()) entry["type"] = link.type;
    if (link.mtu) entry["mtu"] = *link.mtu;
    for (const auto& a : link.addresses)
      entry["addresses"].push_back({{"address", a.text()}, {"prefix", a.prefix}, {"scope", name(a.scope)}});
    all.push_back(std::move(entry));
  }
  return all.dump(1) + "\n";
}

Result<std::vector<Link>> read_links(Tree& tree) {
  if (tree.live()) return read_links();
  if (const auto recorded = tree.text(recorded_links, 1U << 20U))
    return parse_links(*recorded, recorded_links);
  return by_files(tree);
}

}  // namespace nccl_check::node
