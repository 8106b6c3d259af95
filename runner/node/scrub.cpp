#include "node/scrub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/text.hpp"

namespace nccl_check::node {
namespace {

bool hex(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}

// "hh:hh:hh" for "0a:1b:2c".
std::string shape_of(const std::string& word) {
  std::string out;
  for (const char c : word) out += hex(c) ? 'h' : c;
  return out;
}

std::string repeated(const std::string& part, int times) {
  std::string out = part;
  for (int i = 1; i < times; ++i) out += ":" + part;
  return out;
}

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.' || c == '-' || c == '_';
}

bool special(const Address& a) {
  if (a.family == Address::Family::v4) return a.bytes[0] == 127 || a.bytes[0] == 0 || a.bytes[0] >= 224;
  // ::, ::1, and multicast.
  return a.bytes[0] == 0xff ||
         std::all_of(a.bytes.begin(), a.bytes.begin() + 15, [](auto b) { return b == 0; });
}

// "1.2.3.4" in the text of a version is none of an address's business: those have letters or dashes around
// them, or are not all of four numbers.
bool looks_like_v4(const std::string& word) {
  return std::count(word.begin(), word.end(), '.') == 3 && word.find_first_not_of("0123456789.") == word.npos;
}

}  // namespace

Scrub::Scrub(const std::string& host) : host_(host), short_host_(host.substr(0, host.find('.'))) {}

// Digits of a counter in the same shape, the first byte 02 (locally administered).
std::string Scrub::hexadecimal(const std::string& from, const std::string& shape) {
  const auto [at, is_new] = known_.try_emplace(from);
  if (!is_new) return at->second;
  const auto digits = static_cast<std::size_t>(std::count(shape.begin(), shape.end(), 'h'));
  std::string counter = fmt::format("{:0{}x}", known_.size(), digits);
  counter[1] = '2';
  std::size_t next = 0;
  for (const char c : shape) at->second += c == 'h' ? counter[next++] : c;
  return at->second;
}

Address Scrub::address(const Address& from) {
  if (special(from)) return from;
  Address out = from;
  const bool v4 = from.family == Address::Family::v4;
  const std::size_t size = v4 ? 4 : 16, upper = v4 ? 3 : 8;
  const std::string all(from.bytes.begin(), from.bytes.begin() + static_cast<long>(size));
  const auto network = networks_.try_emplace(all.substr(0, upper), networks_.size() + 1).first->second;
  const auto host = hosts_.try_emplace(all, hosts_.size() + 1).first->second;
  if (v4) {
    if (!from.link_local()) out.bytes = {10, 77, static_cast<std::uint8_t>(network)};
    // The lowest bits stay, so that a /31 keeps its two ends.
    out.bytes[2] = static_cast<std::uint8_t>(from.link_local() ? 77U : network);
    out.bytes[3] = static_cast<std::uint8_t>(((host * 4U) & 0xfcU) | (from.bytes[3] & 3U));
    return out;
  }
  std::fill(out.bytes.begin() + 8, out.bytes.end(), std::uint8_t{0});
  if (!from.link_local()) {
    std::fill(out.bytes.begin(), out.bytes.end(), std::uint8_t{0});
    out.bytes[0] = 0xfd;
    out.bytes[1] = 0x77;
    out.bytes[7] = static_cast<std::uint8_t>(network);
  }
  out.bytes[14] = static_cast<std::uint8_t>(host >> 8U);
  out.bytes[15] = static_cast<std::uint8_t>(host);
  return out;
}

std::string Scrub::word(const std::string& from) {
  if (!host_.empty() && (from == host_ || from == short_host_)) return "node";
  if (!short_host_.empty() && from.starts_with(short_host_ + ".")) return "node";
  if (from.starts_with("GPU-") && shape_of(from.substr(4)) == "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh")
    return "GPU-" + hexadecimal(from.substr(4), shape_of(from.substr(4)));
  const auto shape = shape_of(from);
  // A MAC, IPoIB's 20 bytes, a GUID, a GUID as one number; a PCI address is none of them.
  for (const auto& known : {repeated("hh", 6), repeated("hh", 20), repeated("hhhh", 4)})
    if (shape == known) return hexadecimal(from, shape);
  if (from.starts_with("0x") && from.size() == 18 && shape_of(from.substr(2)) == std::string(16, 'h'))
    return "0x" + hexadecimal(from.substr(2), std::string(16, 'h'));
  if (!looks_like_v4(from) && std::count(from.begin(), from.end(), ':') < 2) return from;
  const auto parsed = parse_address(from);
  if (!parsed) return from;
  // A GID with an IPv4 address inside stays one.
  const bool mapped =
      parsed->bytes[10] == 0xff && parsed->bytes[11] == 0xff &&
      std::all_of(parsed->bytes.begin(), parsed->bytes.begin() + 10, [](auto b) { return b == 0; });
  if (parsed->family == Address::Family::v4 || !mapped) return address(*parsed).text();
  Address inner;
  std::copy(parsed->bytes.begin() + 12, parsed->bytes.end(), inner.bytes.begin());
  return "::ffff:" + address(inner).text();
}

std::string Scrub::text(const std::string& from) {
  std::string out;
  for (std::size_t at = 0; at < from.size();) {
    std::size_t end = at;
    while (end < from.size() && in_word(from[end])) ++end;
    if (end == at) {
      out += from[at++];
      continue;
    }
    // A sentence's full stop, or a key's colon.
    std::size_t stop = end;
    while (stop > at + 1 && (from[stop - 1] == '.' || (from[stop - 1] == ':' && from[stop - 2] != ':')))
      --stop;
    out += word(from.substr(at, stop - at)) + from.substr(stop, end - stop);
    at = end;
  }
  return out;
}

}  // namespace nccl_check::node
