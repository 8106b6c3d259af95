#include "engine/fabric/set_up.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "engine/fabric/choose.hpp"
#include "engine/fabric/library.hpp"
#include "node/interfaces.hpp"

namespace nccl_check::engine::fabric {
namespace {

std::string pci_text(const fi_pci_attr& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
}

// The IP address in a socket address; anything else has none that the node's interfaces could be searched
// for.
std::string source_text(const fi_info& info) {
  node::Address address;
  const auto* bytes = static_cast<const std::byte*>(info.src_addr);
  if (bytes == nullptr) return {};
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addrlen >= 8) {
    std::memcpy(address.bytes.data(), bytes + 4, 4);
    return address.text();
  }
  if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addrlen >= 24) {
    address.family = node::Address::Family::v6;
    std::memcpy(address.bytes.data(), bytes + 8, 16);
    return address.text();
  }
  return {};
}

std::vector<const fi_info*> in_order(const fi_info* list) {
  std::vector<const fi_info*> infos;
  for (; list != nullptr; list = list->next) infos.push_back(list);
  return infos;
}

std::vector<Candidate> candidates_of(const std::vector<const fi_info*>& infos) {
  std::vector<Candidate> out;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const fi_info& info = *infos[i];
    Candidate candidate;
    candidate.index = i;
    candidate.provider = info.fabric_attr->prov_name;
    candidate.domain = info.domain_attr->name == nullptr ? "" : info.domain_attr->name;
    candidate.source = source_text(info);
    if (info.nic != nullptr) {
      if (info.nic->bus_attr != nullptr && info.nic->bus_attr->bus_type == FI_BUS_PCI)
        candidate.pci = pci_text(info.nic->bus_attr->attr.pci);
      if (info.nic->link_attr != nullptr) {
        candidate.link_down = info.nic->link_attr->state == FI_LINK_DOWN;
        candidate.speed = static_cast<double>(info.nic->link_attr->speed);
      }
    }
    out.push_back(std::move(candidate));
  }
  return out;
}

}  // namespace

Result<SetUp> set_up(const Settings& settings) {
  auto opened_library = open_library(settings.library);
  if (!opened_library) return opened_library.error();
  const auto library = std::make_shared<const Library>(std::move(*opened_library));
  auto list = query(*library, settings.provider);
  if (!list) return list.error();
  if (!*list && !settings.provider.empty()) {  // for the error, which lists what is there
    list = query(*library, "");
    if (!list) return list.error();
  }
  const auto infos = in_order(list->get());

  auto links = node::read_links();
  if (!links) return links.error();
  const auto interfaces = node::read_interfaces("/", *links);
  const Result<std::string> toward =
      settings.toward.empty() ? Result<std::string>(Error{"no address to go toward was given", "", ""})
                              : node::interface_toward(settings.toward, interfaces);
  const auto chosen = choose(settings, candidates_of(infos), interfaces, toward);
  if (!chosen) return chosen.error();

  SetUp out;
  out.provider = chosen->provider;
  Description& description = out.opened.description;
  description.engine = "fabric";
  description.versions = {{"libfabric", library->version}, {"provider", chosen->provider}};
  description.line_rate = chosen->line_rate;
  description.line_text = chosen->line_text;
  NodeAddress address{chosen->provider, {}};
  for (const auto& one : chosen->rails) {
    auto rail = Rail::open(library, *infos[one.index], one.name);
    if (!rail) return rail.error();
    address.endpoints.push_back(rail->address());
    out.rails.push_back(std::move(*rail));
    description.devices.push_back(one.name);
  }
  description.device_text = fmt::format("{} ({})", join(description.devices, ", "), chosen->provider);
  out.opened.address = write_address(address);
  if (out.opened.address.size() > most_text)
    return Error{fmt::format("the address of {} endpoints is longer than 4 KiB", out.rails.size()), "",
                 "name fewer interfaces"};
  return out;
}

}  // namespace nccl_check::engine::fabric
