#include "node/pci.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "base/units.hpp"

namespace nccl_check::node {
namespace {

constexpr const char* devices = "/sys/bus/pci/devices/";

// "16.0 GT/s PCIe"; older kernels: "16 GT/s". "Unknown" stays unknown.
std::optional<double> gigatransfers(const std::optional<std::string>& text) {
  if (!text || text->find("GT/s") == text->npos) return std::nullopt;
  const auto value = parse_number(text->substr(0, text->find(' ')));
  return value && *value > 0 ? std::optional<double>(*value) : std::nullopt;
}

// 0 and 255 are the kernel's "no link" and "unknown".
std::optional<int> lanes(const std::optional<long long>& width) {
  if (!width || *width <= 0 || *width > 32) return std::nullopt;
  return static_cast<int>(*width);
}

void read_links_of(Tree& tree, const std::string& folder, PciFunction& out) {
  const auto fill = [&](const char* word, PciLink& link) {
    const std::string speed = folder + "/" + word + "_link_speed",
                      width = folder + "/" + word + "_link_width";
    link.speed = gigatransfers(tree.line(speed));
    link.width = lanes(tree.number(width));
    out.origin.set(fmt::format("{}_link_speed", word), speed, link.speed.has_value());
    out.origin.set(fmt::format("{}_link_width", word), width, link.width.has_value());
  };
  fill("current", out.now);
  fill("max", out.most);
}

// Device ids of virtual functions, which in a virtual machine look like any other device: Mellanox's, by
// pci.ids (ConnectX-2 to -6 and "mlx5Gen Virtual Function").
bool is_virtual_id(unsigned vendor, unsigned device) {
  constexpr std::array<unsigned, 9> mellanox{0x1002, 0x1004, 0x1012, 0x1014, 0x1016,
                                             0x1018, 0x101a, 0x101c, 0x101e};
  return vendor == 0x15b3 && std::find(mellanox.begin(), mellanox.end(), device) != mellanox.end();
}

std::optional<unsigned> id(const std::optional<long long>& value) {
  if (!value || *value < 0 || *value > 0xffffff) return std::nullopt;
  return static_cast<unsigned>(*value);
}

}  // namespace

std::string PciFunction::vendor_device() const {
  return vendor && device ? fmt::format("{:04x}:{:04x}", *vendor, *device) : "";
}

std::string pci_address(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (out.size() > 12 && out.starts_with("0000")) out.erase(0, out.size() - 12);
  constexpr std::string_view shape = "hhhh:hh:hh.h";
  if (out.size() < shape.size()) return "";
  // Longer domains exist (VMD): digits in front.
  const std::size_t extra = out.size() - shape.size();
  if (extra > 4) return "";
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char want = i < extra ? 'h' : shape[i - extra];
    const bool fits = want == 'h' ? std::isxdigit(static_cast<unsigned char>(out[i])) != 0 : out[i] == want;
    if (!fits) return "";
  }
  return out;
}

std::string pci_behind(const std::string& path) {
  const auto parts = split(path, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    if (auto address = pci_address(*part); !address.empty()) return *part;
  return "";
}

PciFunction read_pci(Tree& tree, const std::string& address) {
  PciFunction out;
  out.address = address;
  const std::string folder = devices + address;
  const auto real = tree.real(folder);
  if (real) {
    const auto parts = split(*real, '/');
    const auto bridge =
        std::find_if(parts.begin(), parts.end(), [](const std::string& p) { return p.starts_with("pci"); });
    out.path.assign(bridge, parts.end());
  }
  out.origin.set("path", folder, !out.path.empty());
  out.vendor = id(tree.number(folder + "/vendor"));
  out.device = id(tree.number(folder + "/device"));
  out.class_code = id(tree.number(folder + "/class"));
  out.origin.set("class", folder + "/class", out.class_code.has_value());
  out.origin.set("vendor_device", folder + "/vendor", out.vendor && out.device);
  if (const auto numa = tree.number(folder + "/numa_node"); numa && *numa >= 0)
    out.numa = static_cast<int>(*numa);
  out.origin.set("numa", folder + "/numa_node", out.numa.has_value());
  if (const auto driver = tree.real(folder + "/driver")) out.driver = last_part(*driver);
  out.origin.set("driver", folder + "/driver", !out.driver.empty());
  if (tree.there(folder + "/physfn")) {
    out.virtual_function = true;
    out.origin.read("virtual_function", folder + "/physfn");
  } else {
    if (out.vendor && out.device) out.virtual_function = is_virtual_id(*out.vendor, *out.device);
    out.origin.set("virtual_function", folder + "/device", out.virtual_function.has_value());
  }
  read_links_of(tree, folder, out);
  return out;
}

std::optional<std::vector<PciFunction>> read_pci_of_class(Tree& tree, const std::vector<unsigned>& classes) {
  const auto all = tree.entries("/sys/bus/pci/devices");
  if (!all) return std::nullopt;
  std::vector<PciFunction> out;
  for (const auto& address : *all) {
    const auto code = id(tree.number(devices + address + "/class"));
    if (!code || std::find(classes.begin(), classes.end(), *code >> 16U) == classes.end()) continue;
    out.push_back(read_pci(tree, address));
  }
  return out;
}

const char* name(Closeness closeness) {
  constexpr std::array<const char*, 6> names{"PIX", "PXB", "PHB", "NODE", "SYS", "unknown"};
  return names.at(static_cast<std::size_t>(closeness));
}

Distance distance(const PciFunction& a, const PciFunction& b) {
  const auto [at_a, at_b] = std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end());
  const auto shared = static_cast<std::size_t>(at_a - a.path.begin());
  if (shared > 0) {
    const std::size_t below_a = a.path.size() - shared, below_b = b.path.size() - shared;
    const std::size_t hops = below_a + below_b;
    if (shared == 1) return {Closeness::phb, hops};
    // One switch: its two ports, and a device behind each.
    return {std::max(below_a, below_b) <= 2 ? Closeness::pix : Closeness::pxb, hops};
  }
  if (!a.numa || !b.numa) return {};
  return {*a.numa == *b.numa ? Closeness::node : Closeness::sys, 0};
}

}  // namespace nccl_check::node
