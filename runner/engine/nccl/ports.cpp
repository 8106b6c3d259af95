#include "engine/nccl/ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace nccl_check::engine::nccl {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    out.push_back(it->path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string first_line(const fs::path& path) {
  auto text = read_file(path.string(), 4096, Trust::anyone);
  return text ? std::string(trim(*text)) : "";
}

// "400 Gb/sec (4X NDR)"; 0: not understood
double gigabits(const std::string& text) {
  const auto number = parse_number(text.substr(0, text.find(' ')));
  return number && text.find("Gb/sec") != text.npos ? *number : 0;
}

}  // namespace

Ports read_ports(const std::string& root) {
  Ports out;
  std::map<double, std::vector<std::string>, std::greater<>> by_rate;
  const fs::path all = fs::path(root) / "sys/class/infiniband";
  for (const auto& device : entries(all))
    for (const auto& port : entries(all / device / "ports")) {
      const fs::path folder = all / device / "ports" / port;
      if (first_line(folder / "state").find("ACTIVE") == std::string::npos) continue;
      const double rate = gigabits(first_line(folder / "rate"));
      ++out.active;
      out.rate += rate / 8;
      by_rate[rate].push_back(device + ":" + port);
    }
  std::vector<std::string> texts;
  for (const auto& [rate, names] : by_rate)
    texts.push_back(fmt::format("{} port{} at {} Gb/s ({})", names.size(), names.size() == 1 ? "" : "s",
                                format_rate(rate), join(names, ", ")));
  out.text = join(texts, ", ");
  return out;
}

}  // namespace nccl_check::engine::nccl
