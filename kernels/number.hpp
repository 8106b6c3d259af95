#pragma once
// Small exact numbers in each type's bits, by integer arithmetic alone, so that host and device need none of
// CUDA's headers for 8- and 16-bit floats and agree to the bit.
#include <cstdint>

#include "kernels/kernels.hpp"

#ifdef __CUDACC__
#define NCCL_CHECK_BOTH __host__ __device__ __forceinline__
#else
#define NCCL_CHECK_BOTH inline
#endif

namespace nccl_check::kernels {

struct Format {
  bool floating;
  bool is_signed;
  int bits;
  int digits;  // of the significand, the hidden one included; 0: an integer
};

NCCL_CHECK_BOTH constexpr Format format_of(Type type) {
  switch (type) {
    case Type::int8:
      return {false, true, 8, 0};
    case Type::uint8:
      return {false, false, 8, 0};
    case Type::int32:
      return {false, true, 32, 0};
    case Type::uint32:
      return {false, false, 32, 0};
    case Type::int64:
      return {false, true, 64, 0};
    case Type::uint64:
      return {false, false, 64, 0};
    case Type::float16:
      return {true, true, 16, 11};
    case Type::float32:
      return {true, true, 32, 24};
    case Type::float64:
      return {true, true, 64, 53};
    case Type::bfloat16:
      return {true, true, 16, 8};
    case Type::float8_e4m3:
      return {true, true, 8, 4};
    case Type::float8_e5m2:
      return {true, true, 8, 3};
  }
  return {false, false, 8, 0};
}

NCCL_CHECK_BOTH constexpr int bias_of(Format format) {
  return (1 << (format.bits - format.digits - 1)) - 1;
}
// The exponent of the least number above 0.
NCCL_CHECK_BOTH constexpr int least_exponent(Format format) {
  return 2 - bias_of(format) - format.digits;
}
NCCL_CHECK_BOTH constexpr std::uint64_t mask_of(int bits) {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

// (negative ? -1 : 1) * magnitude * 2^exponent.
struct Number {
  bool negative;
  std::uint64_t magnitude;
  int exponent;
};

NCCL_CHECK_BOTH constexpr int highest_bit(std::uint64_t value) {
  int bit = 0;
  while (value > 1) {
    value >>= 1;
    ++bit;
  }
  return bit;
}

// value / 2^shift, to the nearest, ties to even.
NCCL_CHECK_BOTH constexpr std::uint64_t shift_rounding(std::uint64_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 63) return 0;
  const std::uint64_t quotient = value >> shift;
  const std::uint64_t rest = value & mask_of(shift);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return quotient + ((rest > half || (rest == half && (quotient & 1) != 0)) ? 1 : 0);
}

// To the nearest float, ties to even (no overflow); integers wrap and have exponent 0.
NCCL_CHECK_BOTH constexpr std::uint64_t encode(Format format, Number number) {
  if (!format.floating) {
    return (number.negative ? 0 - number.magnitude : number.magnitude) & mask_of(format.bits);
  }
  if (number.magnitude == 0) return 0;
  const int least = least_exponent(format);
  int unit = highest_bit(number.magnitude) + number.exponent - (format.digits - 1);
  if (unit < least) unit = least;
  const std::uint64_t significand = shift_rounding(number.magnitude, unit - number.exponent);
  // The hidden digit and a carry out of rounding both add 1 to the exponent's field, as they should.
  const std::uint64_t bits = (static_cast<std::uint64_t>(unit - least) << (format.digits - 1)) + significand;
  return number.negative ? bits | std::uint64_t{1} << (format.bits - 1) : bits;
}

// A finite float's number.
NCCL_CHECK_BOTH constexpr Number decode(Format format, std::uint64_t bits) {
  const bool negative = (bits >> (format.bits - 1) & 1) != 0;
  const std::uint64_t rest = bits & mask_of(format.bits - 1);
  const std::uint64_t field = rest >> (format.digits - 1);
  const std::uint64_t fraction = rest & mask_of(format.digits - 1);
  if (field == 0) return {negative, fraction, least_exponent(format)};
  return {negative, fraction | std::uint64_t{1} << (format.digits - 1),
          static_cast<int>(field) - 1 + least_exponent(format)};
}

// The largest finite value's bits, sign bit clear.
NCCL_CHECK_BOTH constexpr std::uint64_t highest(Type type) {
  const Format format = format_of(type);
  if (!format.floating) return mask_of(format.is_signed ? format.bits - 1 : format.bits);
  if (type == Type::float8_e4m3) return 0x7e;  // 448: this type has no infinity and one NaN
  return (mask_of(format.bits - format.digits) << (format.digits - 1)) - 1;
}
NCCL_CHECK_BOTH constexpr std::uint64_t lowest(Type type) {
  const Format format = format_of(type);
  const std::uint64_t sign = std::uint64_t{1} << (format.bits - 1);
  if (format.floating) return highest(type) | sign;
  return format.is_signed ? sign : 0;
}

}  // namespace nccl_check::kernels
