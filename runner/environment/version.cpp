#include "environment/version.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/text.hpp"

namespace nccl_check::environment {

std::string Version::text() const {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::optional<Version> parse_version(std::string_view text) {
  text = trim(text.substr(0, text.find_first_of("+-")));
  const auto parts = split(text, '.');
  if (parts.empty() || parts.size() > 4) return std::nullopt;
  std::array<int, 4> numbers{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = parts[i];
    const auto [stop, code] = std::from_chars(part.data(), part.data() + part.size(), numbers.at(i));
    if (code != std::errc{} || stop != part.data() + part.size() || numbers.at(i) < 0) return std::nullopt;
  }
  if (parts.size() > 1) return Version{numbers[0], numbers[1], numbers[2]};
  // NCCL_VERSION_CODE: 2809 is 2.8.9, from 2.9 on 21003 is 2.10.3 (nccl.h).
  const int code = numbers[0];
  if (code >= 10000) return Version{code / 10000, code / 100 % 100, code % 100};
  if (code >= 1000) return Version{code / 1000, code / 100 % 10, code % 100};
  return std::nullopt;
}

}  // namespace nccl_check::environment
