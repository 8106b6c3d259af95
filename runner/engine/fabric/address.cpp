#include "engine/fabric/address.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/text.hpp"

namespace nccl_check::engine::fabric {
namespace {

constexpr std::string_view magic = "fabric1";

Error refused(std::string_view text, const char* why) {
  return Error{fmt::format("'{}' is not the address of a peer's endpoints: {}", printable(text, 60), why), "",
               "all nodes must run the same nccl-check"};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool read_endpoint(std::string_view text, EndpointAddress& out) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + colon, out.format);
  if (code != std::errc{} || stop != text.data() + colon) return false;
  const auto digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() % 2 != 0 || digits.size() / 2 > most_address_bytes) return false;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = hex_digit(digits[i]);
    const int low = hex_digit(digits[i + 1]);
    if (high < 0 || low < 0) return false;
    out.bytes += static_cast<char>(high * 16 + low);
  }
  return true;
}

}  // namespace

std::string write_address(const NodeAddress& address) {
  std::string out = fmt::format("{} {}", magic, address.provider);
  for (const auto& endpoint : address.endpoints) {
    out += fmt::format(" {}:", endpoint.format);
    for (const char byte : endpoint.bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return out;
}

Result<NodeAddress> read_address(std::string_view text) {
  if (text.empty()) return refused(text, "it is empty");
  if (text.size() > most_text) return refused(text, "it is longer than 4 KiB");
  const auto words = split(text, ' ');
  if (words[0] != magic) return refused(text, "it is of another version or not ours");
  if (words.size() < 3) return refused(text, "it is cut off");
  if (words.size() - 2 > most_rails) return refused(text, "it has more than 16 endpoints");
  NodeAddress out;
  out.provider = words[1];
  if (out.provider.empty()) return refused(text, "it names no provider");
  for (std::size_t i = 2; i < words.size(); ++i) {
    EndpointAddress endpoint;
    if (!read_endpoint(words[i], endpoint)) return refused(text, "an endpoint's address is malformed");
    out.endpoints.push_back(std::move(endpoint));
  }
  return out;
}

}  // namespace nccl_check::engine::fabric
