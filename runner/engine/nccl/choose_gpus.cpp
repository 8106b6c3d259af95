#include "engine/nccl/choose_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;

bool have_minors(const std::vector<Known>& known) {
  std::vector<std::uint32_t> seen;
  for (const auto& gpu : known) {
    if (!gpu.minor || std::find(seen.begin(), seen.end(), *gpu.minor) != seen.end()) return false;
    seen.push_back(*gpu.minor);
  }
  return true;
}

// Short, since it becomes a drain's reason: by what was asked for.
std::string listed(const std::vector<Known>& known, bool minors, bool by_uuid) {
  if (known.empty()) return "the driver shows none";
  std::vector<std::string> texts;
  for (const auto& gpu : known)
    texts.push_back(by_uuid ? gpu.uuid : std::to_string(minors ? *gpu.minor : gpu.index));
  return "the driver shows " + join(texts, ", ");
}

Failure missing(const std::string& wanted, const std::vector<Known>& known, bool minors) {
  return {Class::broken,
          {fmt::format("GPU {} of this job is not there: {}", printable(wanted, 60),
                       listed(known, minors, wanted.starts_with("GPU-"))),
           "", "see nvidia-smi and the kernel's log for a GPU that fell off the bus"}};
}

bool number_of(std::string_view text, std::uint32_t& out) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc{} && stop == text.data() + text.size();
}

// Its place in `known`; known.size(): none, or several begin so.
std::size_t place_of(const std::string& wanted, const std::vector<Known>& known, bool minors) {
  std::uint32_t number = 0;
  if (number_of(wanted, number)) {
    for (std::size_t i = 0; i < known.size(); ++i)
      if ((minors ? *known[i].minor : known[i].index) == number) return i;
    return known.size();
  }
  std::size_t found = known.size();
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!wanted.starts_with("GPU-") || !known[i].uuid.starts_with(wanted)) continue;
    if (found != known.size()) return known.size();
    found = i;
  }
  return found;
}

Failure mig_failure(const std::string& where) {
  return {Class::untested, {"MIG is enabled: a part of a GPU is not measured", where, ""}};
}

}  // namespace

Measured<std::vector<Chosen>> choose_gpus(const std::vector<std::string>& wanted,
                                          const std::vector<Known>& known) {
  const bool minors = have_minors(known);
  std::vector<std::size_t> places;
  for (const auto& text : wanted) {
    if (text.starts_with("MIG-")) return mig_failure(printable(text, 60));
    const auto place = place_of(text, known, minors);
    if (place == known.size()) return missing(text, known, minors);
    places.push_back(place);
  }
  if (wanted.empty())
    for (std::size_t i = 0; i < known.size(); ++i) places.push_back(i);
  if (places.empty())
    return Failure{Class::broken, {"the driver shows no GPU", "", "see nvidia-smi and the kernel's log"}};
  std::sort(places.begin(), places.end(), [&](auto a, auto b) { return known[a].pci < known[b].pci; });
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<Chosen> out;
  for (const auto place : places) {
    const auto& gpu = known[place];
    const auto number = minors ? *gpu.minor : gpu.index;
    if (gpu.mig) return mig_failure(gpu_text(number, gpu.pci));
    out.push_back({number, gpu});
  }
  return out;
}

std::string pci_address(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  // NVML writes eight digits for the domain, sysfs four.
  if (const auto colon = out.find(':'); colon == 8 && out.starts_with("0000")) out.erase(0, 4);
  return out;
}

std::string gpu_text(std::uint32_t number, std::string_view pci) {
  return fmt::format("GPU {} ({})", number, pci);
}

}  // namespace nccl_check::engine::nccl
