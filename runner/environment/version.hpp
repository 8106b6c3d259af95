#pragma once
// NCCL's version, as far as rules depend on it.
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace nccl_check::environment {

struct Version {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const Version&) const = default;
  [[nodiscard]] std::string text() const;  // "2.28.9"
};

// "2.28.9", "2.28", "2.28.9+cuda13.0" and NCCL's own number 22809; nothing for anything else.
std::optional<Version> parse_version(std::string_view text);

}  // namespace nccl_check::environment
