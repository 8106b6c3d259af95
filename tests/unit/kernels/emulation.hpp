#pragma once
// Arithmetic of each type, written from the formats' definitions and apart from the code under test: every
// step is done in double (exact for what is added and multiplied here) and rounded to the type by searching
// its values, not by shifting bits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/kernels.hpp"

namespace nccl_check::kernels::emulation {

struct Float {
  int exponent_bits, fraction_bits;
};
inline Float float_of(Type type) {
  switch (type) {
    case Type::float16:
      return {5, 10};
    case Type::bfloat16:
      return {8, 7};
    case Type::float32:
      return {8, 23};
    case Type::float64:
      return {11, 52};
    case Type::float8_e4m3:
      return {4, 3};
    case Type::float8_e5m2:
      return {5, 2};
    default:
      return {0, 0};
  }
}
inline bool floating(Type type) {
  return float_of(type).exponent_bits != 0;
}
inline bool is_signed(Type type) {
  return type == Type::int8 || type == Type::int32 || type == Type::int64 || floating(type);
}

inline double to_double(Type type, std::uint64_t bits) {
  const Float f = float_of(type);
  const auto field = static_cast<int>(bits >> f.fraction_bits & ((1ULL << f.exponent_bits) - 1));
  const double fraction =
      static_cast<double>(bits & ((1ULL << f.fraction_bits) - 1)) / std::pow(2.0, f.fraction_bits);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const bool negative = (bits >> (f.exponent_bits + f.fraction_bits) & 1) != 0;
  const double magnitude =
      field == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, field - bias);
  return negative ? -magnitude : magnitude;
}

// Round to nearest even. 32 and 64 bits are the host's own.
inline std::uint64_t from_double(Type type, double value) {
  std::uint64_t bits = 0;
  if (type == Type::float64) {
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  if (type == Type::float32) {
    const float narrow = static_cast<float>(value);
    std::memcpy(&bits, &narrow, sizeof narrow);
    return bits;
  }
  const Float f = float_of(type);
  const std::uint64_t sign = std::signbit(value) ? 1ULL << (f.exponent_bits + f.fraction_bits) : 0;
  const double magnitude = std::fabs(value);
  std::uint64_t low = 0;  // positive floats are ordered as their bits
  std::uint64_t high = 1ULL << (f.exponent_bits + f.fraction_bits);
  while (high - low > 1) {
    const std::uint64_t middle = (low + high) / 2;
    (to_double(type, middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - to_double(type, low);
  const double above = to_double(type, low + 1) - magnitude;
  if (above < below || (above == below && low % 2 != 0)) ++low;
  return sign | low;
}

inline std::uint64_t mask(Type type) {
  return size_of(type) == 8 ? ~0ULL : (1ULL << (8 * size_of(type))) - 1;
}
inline std::int64_t to_signed(Type type, std::uint64_t bits) {
  const auto shift = static_cast<int>(64 - 8 * size_of(type));
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

inline bool less(Type type, std::uint64_t a, std::uint64_t b) {
  if (floating(type)) return to_double(type, a) < to_double(type, b);
  return is_signed(type) ? to_signed(type, a) < to_signed(type, b) : a < b;
}

inline std::uint64_t combine(Type type, Reduction reduction, std::uint64_t a, std::uint64_t b) {
  if (reduction == Reduction::max) return less(type, a, b) ? b : a;
  if (reduction == Reduction::min) return less(type, b, a) ? b : a;
  const bool product = reduction == Reduction::prod;
  if (!floating(type)) return (product ? a * b : a + b) & mask(type);
  const double x = to_double(type, a);
  const double y = to_double(type, b);
  return from_double(type, product ? x * y : x + y);
}

inline std::uint64_t times(Type type, std::uint64_t a, double factor) {
  return from_double(type, to_double(type, a) * factor);
}
inline double reciprocal(Type type, std::uint32_t ranks) {
  if (type == Type::float64) return 1.0 / ranks;
  const auto narrow = static_cast<float>(1.0 / ranks);
  return to_double(type, from_double(type, static_cast<double>(narrow)));
}

// As NCCL does before adding: averages of floats and premul_sum multiply every rank's data.
inline std::uint64_t before(Type type, Reduction reduction, std::uint64_t a, std::uint32_t ranks) {
  if (reduction == Reduction::avg && floating(type)) return times(type, a, reciprocal(type, ranks));
  if (reduction != Reduction::premul_sum) return a;
  return floating(type) ? times(type, a, premul_factor) : (a * premul_factor) & mask(type);
}
inline std::uint64_t after(Type type, Reduction reduction, std::uint64_t a, std::uint32_t ranks) {
  if (reduction != Reduction::avg || floating(type)) return a;
  if (!is_signed(type)) return a / ranks;
  return static_cast<std::uint64_t>(to_signed(type, a) / static_cast<std::int64_t>(ranks)) & mask(type);
}

enum class Order { ascending, descending, tree, rotated };

inline std::uint64_t reduce(Type type, Reduction reduction, std::vector<std::uint64_t> values, Order order) {
  const auto ranks = static_cast<std::uint32_t>(values.size());
  for (auto& value : values) value = before(type, reduction, value, ranks);
  if (order == Order::descending) std::reverse(values.begin(), values.end());
  if (order == Order::rotated) std::rotate(values.begin(), values.begin() + ranks / 3, values.end());
  if (order == Order::tree) {
    for (std::size_t step = 1; step < values.size(); step *= 2) {
      for (std::size_t i = 0; i + step < values.size(); i += 2 * step) {
        values[i] = combine(type, reduction, values[i], values[i + step]);
      }
    }
  } else {
    for (std::size_t i = 1; i < values.size(); ++i) {
      values[0] = combine(type, reduction, values[0], values[i]);
    }
  }
  return after(type, reduction, values[0], ranks);
}

}  // namespace nccl_check::kernels::emulation
