#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "node/facts.hpp"

namespace nccl_check::node {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* unknown = "unknown";

json or_unknown(const std::string& text) {
  return text.empty() ? json(unknown) : json(text);
}
template <class T>
json or_unknown(const std::optional<T>& value) {
  return value ? json(*value) : json(unknown);
}
json positive(double value) {
  return value > 0 ? json(value) : json(unknown);
}

json places(const Origin& origin) {
  json out = json::object();
  for (const auto& [field, place] : origin.places()) out[field] = place;
  return out;
}

json of(const PciFunction& function) {
  return {{"address", function.address},
          {"path", function.path},
          {"ids", or_unknown(function.vendor_device())},
          {"class", function.class_code ? json(fmt::format("{:06x}", *function.class_code)) : json(unknown)},
          {"numa", or_unknown(function.numa)},
          {"driver", or_unknown(function.driver)},
          {"virtual_function", or_unknown(function.virtual_function)},
          {"link_gts", or_unknown(function.now.speed)},
          {"link_lanes", or_unknown(function.now.width)},
          {"most_link_gts", or_unknown(function.most.speed)},
          {"most_link_lanes", or_unknown(function.most.width)},
          {"from", places(function.origin)}};
}

json of(const Interface& i) {
  const auto kernel = [&](const char* field, bool value) {
    return i.origin.unknown(field) ? json(unknown) : json(value);
  };
  json addresses = json::array();
  for (const auto& a : i.addresses)
    addresses.push_back({{"address", a.text()}, {"prefix", a.prefix}, {"scope", name(a.scope)}});
  json out{{"name", i.name},
           {"kind", name(i.kind)},
           {"type", i.type},
           {"up", kernel("up", i.up)},
           {"carrier", kernel("carrier", i.carrier)},
           {"speed_bit_s", positive(i.speed)},
           {"mtu", or_unknown(i.mtu)},
           {"master", i.master},
           {"lower", i.lower},
           {"hardware", i.hardware},
           {"usb", i.usb},
           {"rdma", i.domains},
           {"addresses", i.addresses_known || !addresses.empty() ? addresses : json(unknown)}};
  if (!i.pci.empty()) out["pci"] = of(i.function);
  out["from"] = places(i.origin);
  return out;
}

json of(const Port& port) {
  json gids = json::array();
  for (const auto& gid : port.gids)
    gids.push_back({{"index", gid.index},
                    {"gid", gid.address.text()},
                    {"type", or_unknown(gid.type)},
                    {"netdev", gid.netdev}});
  return {{"port", port.number},
          {"state", or_unknown(port.state)},
          {"rate_bit_s", positive(port.rate)},
          {"link_layer", name(port.layer)},
          {"netdev", port.netdev},
          {"gids", gids},
          {"from", places(port.origin)}};
}

json of(const RdmaDevice& device) {
  json ports = json::array();
  for (const auto& port : device.ports) ports.push_back(of(port));
  json out{{"name", device.name}, {"ports", ports}};
  out["pci"] = device.pci.empty() ? json(unknown) : of(device.function);
  out["from"] = places(device.origin);
  return out;
}

json of(const Gpu& gpu) {
  json nearest = json::array();
  for (const auto& near : gpu.nearest)
    nearest.push_back({{"name", near.name}, {"pci", near.pci}, {"closeness", name(near.distance.closeness)}});
  return {{"pci", of(gpu.function)},
          {"vendor", gpu.vendor == Vendor::nvidia ? "NVIDIA" : "AMD"},
          {"model", or_unknown(gpu.model)},
          {"nearest", gpu.nearest.empty() ? json(unknown) : nearest},
          {"from", places(gpu.origin)}};
}

json of(const Library& library) {
  return {{"path", or_unknown(library.path)}, {"version", or_unknown(library.version)}};
}

json of(const System& system) {
  const auto& limits = system.limits;
  return {{"host", or_unknown(system.host)},
          {"kernel", or_unknown(system.kernel)},
          {"nvidia_driver", or_unknown(system.nvidia_driver)},
          {"memlock_bytes", limits.memlock == no_limit ? json("unlimited") : or_unknown(limits.memlock)},
          {"shm_bytes", or_unknown(limits.shm)},
          {"huge_pages", or_unknown(limits.huge_pages)},
          {"huge_pages_free", or_unknown(limits.huge_pages_free)},
          {"huge_page_bytes", or_unknown(limits.huge_page_size)},
          {"peermem", or_unknown(system.modules.peermem)},
          {"dma_buf", or_unknown(system.modules.dma_buf)},
          {"rdma_modules", or_unknown(system.modules.rdma)},
          {"nccl", of(system.nccl)},
          {"libfabric", of(system.libfabric)},
          {"aws_ofi_nccl", of(system.ofi_plugin)},
          {"from",
           {{"system", places(system.origin)},
            {"limits", places(limits.origin)},
            {"modules", places(system.modules.origin)}}}};
}

template <class T>
json list(const std::optional<std::vector<T>>& all) {
  if (!all) return unknown;
  json out = json::array();
  for (const auto& one : *all) out.push_back(of(one));
  return out;
}

}  // namespace

std::string facts_json(const Facts& facts) {
  const json out{{"system", of(facts.system)},           {"fabric", name(facts.fabric)},
                 {"fabric_from", facts.fabric_from},     {"gpus", list(facts.gpus)},
                 {"interfaces", list(facts.interfaces)}, {"rdma", list(facts.rdma)},
                 {"complaints", facts.complaints}};
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace nccl_check::node
