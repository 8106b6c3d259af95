#include "engine/nccl/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

constexpr std::string_view magic = "nccl1";
constexpr std::size_t most_text = 4096;

Error refused(std::string_view text, const char* why) {
  return Error{fmt::format("'{}' is not the address of a peer's GPUs: {}", printable(text, 60), why), "",
               "all nodes must run the same nccl-check, with the same engine"};
}

}  // namespace

std::string write_address(const WorkerAddress& address) {
  std::string out = fmt::format("{} {}", magic, address.gpus);
  for (const auto& id : address.ids) out += " " + to_hex({id.data(), id.size()});
  return out;
}

Result<WorkerAddress> read_address(std::string_view text) {
  if (text.size() > most_text) return refused(text, "it is longer than 4 KiB");
  const auto words = split(text, ' ');
  if (words.empty() || words[0] != magic) return refused(text, "it is of another version or not ours");
  if (words.size() < 3) return refused(text, "it is cut off");
  WorkerAddress out;
  const char* end = words[1].data() + words[1].size();
  const auto [stop, code] = std::from_chars(words[1].data(), end, out.gpus);
  if (code != std::errc{} || stop != end || out.gpus < 1 || out.gpus > most_gpus)
    return refused(text, "its number of GPUs is impossible");
  for (std::size_t i = 2; i < words.size(); ++i) {
    const auto bytes = from_hex(words[i]);
    if (!bytes || bytes->size() != id_bytes) return refused(text, "a unique id is malformed");
    std::copy(bytes->begin(), bytes->end(), out.ids.emplace_back().begin());
  }
  return out;
}

}  // namespace nccl_check::engine::nccl
