#include "base/units.hpp"

#include <fmt/format.h>
#include <locale.h>
#include <stdlib.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace nccl_check {
namespace {

// The plugins live in other programs, whose locale may write a decimal comma.
locale_t c_locale() {
  static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

struct Split {
  std::string_view number;
  std::string_view unit;
};

Split split_unit(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.'))
    ++end;
  return {text.substr(0, end), text.substr(end)};
}

}  // namespace

// Floating numbers by strtod and snprintf: libstdc++'s from_chars and to_chars for them need libm, which the
// plugins must not load.
Result<double> parse_number(std::string_view text) {
  const Error bad{fmt::format("'{}' is not a number", text), "", "write a decimal number such as 44 or 11.5"};
  // No blanks, signs other than a leading minus, exponents, hexadecimals, infinities.
  const bool decimal =
      text.substr(text.starts_with('-') ? 1 : 0).find_first_not_of("0123456789.") == text.npos &&
      text.find_first_of("0123456789") != text.npos;
  if (!decimal) return bad;
  const std::string copy(text);
  char* stop = nullptr;
  const double value = ::strtod_l(copy.c_str(), &stop, c_locale());
  if (stop != copy.c_str() + copy.size() || !std::isfinite(value)) return bad;
  return value;
}

std::string format_number(double value) {
  constexpr int most_decimals = 340;  // the smallest normal number's
  std::array<char, 700> text{};
  const locale_t before = ::uselocale(c_locale());
  for (int decimals = 0; decimals <= most_decimals; ++decimals) {
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    if (std::strtod(text.data(), nullptr) == value) break;
  }
  ::uselocale(before);
  return text.data();
}

Result<std::uint64_t> parse_size(std::string_view text) {
  auto [number, unit] = split_unit(text);
  const Error bad{fmt::format("'{}' is not a size", text), "",
                  "write bytes, or a number with K, M or G, such as 256M"};
  std::uint64_t value = 0;
  const char* end = number.data() + number.size();
  auto [stop, code] = std::from_chars(number.data(), end, value);
  if (number.empty() || code != std::errc{} || stop != end) return bad;
  if (unit.size() == 3 && unit.substr(1) == "iB") unit = unit.substr(0, 1);
  if (unit.size() == 2 && unit[1] == 'B') unit = unit.substr(0, 1);
  if (unit == "B") unit = "";
  int shift = 0;
  if (unit == "K" || unit == "k") {
    shift = 10;
  } else if (unit == "M" || unit == "m") {
    shift = 20;
  } else if (unit == "G" || unit == "g") {
    shift = 30;
  } else if (!unit.empty()) {
    return bad;
  }
  if (value > (UINT64_MAX >> shift)) return bad;
  return value << shift;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  auto [number, unit] = split_unit(text);
  const Error bad{fmt::format("'{}' is not a time", text), "",
                  "write a number with ms, s, m, h or d, such as 10s"};
  auto value = parse_number(number);
  if (!value) return bad;
  double scale = 0;
  if (unit == "ms") {
    scale = 1;
  } else if (unit.empty() || unit == "s") {
    scale = 1e3;
  } else if (unit == "m" || unit == "min") {
    scale = 60e3;
  } else if (unit == "h") {
    scale = 3600e3;
  } else if (unit == "d") {
    scale = 86400e3;
  } else {
    return bad;
  }
  const double ms = *value * scale;
  if (ms < 0 || ms > 1e12) return bad;
  return std::chrono::milliseconds(static_cast<long long>(ms + 0.5));
}

std::string format_size(std::uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < std::size(units) && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, units[unit]);
}

std::string format_seconds(std::chrono::nanoseconds t) {
  const double s = std::chrono::duration<double>(t).count();
  return s < 0.1 ? fmt::format("{:.3f} s", s) : fmt::format("{:.1f} s", s);
}

std::string format_rate(double value) {
  if (!std::isfinite(value)) return "?";
  const double size = std::fabs(value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.1f}", value);
  if (size >= 1) return fmt::format("{:.2f}", value);
  if (size >= 0.1) return fmt::format("{:.3f}", value);
  return fmt::format("{:.4f}", value);
}

}  // namespace nccl_check
