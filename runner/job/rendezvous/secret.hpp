#pragma once
// 32 random bytes that a node and the coordinator share. Never logged; wiped when no longer needed.
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nccl_check::rendezvous {

class Secret {
 public:
  static constexpr std::size_t size = 32;
  static Result<Secret> random();
  static std::optional<Secret> from_hex(std::string_view hex);
  [[nodiscard]] std::string hex() const;  // for the inside of a credential only

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();
  [[nodiscard]] const unsigned char* data() const { return bytes_.data(); }

 private:
  Secret() = default;
  std::array<unsigned char, size> bytes_{};
};

void wipe(std::string& text);  // of a text that holds a secret

}  // namespace nccl_check::rendezvous
