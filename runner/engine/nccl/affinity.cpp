#include "engine/nccl/affinity.hpp"

#include <sched.h>

#include <charconv>

#include "base/files.hpp"
#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

bool number(std::string_view text, int& out) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc{} && stop == text.data() + text.size() && out >= 0 && out < CPU_SETSIZE;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> out;
  for (const std::string& word : split(trim(text), ',')) {
    const std::string_view part = word;
    const auto dash = part.find('-');
    int first = 0, last = 0;
    if (!number(part.substr(0, dash), first)) return {};
    last = first;
    if (dash != part.npos && !number(part.substr(dash + 1), last)) return {};
    for (int cpu = first; cpu <= last; ++cpu) out.push_back(cpu);
  }
  return out;
}

void bind_near(const std::string& root, const std::string& pci) {
  auto text = read_file(root + "/sys/bus/pci/devices/" + pci + "/local_cpulist", 65536, Trust::anyone);
  cpu_set_t allowed, near;
  CPU_ZERO(&near);
  if (!text || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (const int cpu : parse_cpu_list(*text))
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) CPU_SET(static_cast<std::size_t>(cpu), &near);
  if (CPU_COUNT(&near) > 0) ::sched_setaffinity(0, sizeof near, &near);
}

}  // namespace nccl_check::engine::nccl
