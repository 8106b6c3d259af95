#include "tests/doubles/nccl/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace nccl_check::doubles {
namespace {

// A small float's format, and its values in a table, since decoding is what takes the time.
template <class Bits, int exponent, int mantissa, bool infinite>
struct Small {
  Bits bits;
  using Wide = float;
  static Wide widen(Small x) {
    static const auto& table = *[] {
      auto* made = new std::vector<float>(std::size_t{1} << (8 * sizeof(Bits)));
      for (std::size_t i = 0; i < made->size(); ++i) {
        (*made)[i] = decode(static_cast<std::uint16_t>(i), exponent, mantissa, infinite);
      }
      return made;
    }();
    return table[x.bits];
  }
  static Small narrow(Wide x) { return {static_cast<Bits>(encode(x, exponent, mantissa, infinite))}; }
};
using Half = Small<std::uint16_t, 5, 10, true>;
using Brain = Small<std::uint16_t, 8, 7, true>;
using E4m3 = Small<std::uint8_t, 4, 3, false>;
using E5m2 = Small<std::uint8_t, 5, 2, true>;

template <class T>
T combined(T a, T b, ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclProd:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      } else {
        return a * b;
      }
    case ncclMax:
      return a < b ? b : a;
    case ncclMin:
      return b < a ? b : a;
    default:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      } else {
        return a + b;
      }
  }
}

template <class T>
T element(T a, T b, ncclRedOp_t reduction) requires std::is_arithmetic_v<T> {
  return combined(a, b, reduction);
}
template <class T>
T element(T a, T b, ncclRedOp_t reduction) {
  return T::narrow(combined(T::widen(a), T::widen(b), reduction));
}

template <class T>
T divided(T a, int ranks) requires std::is_arithmetic_v<T> {
  return static_cast<T>(a / static_cast<T>(ranks));
}
template <class T>
T divided(T a, int ranks) {
  return T::narrow(T::widen(a) / static_cast<float>(ranks));
}

// Calls it with a pointer of the type.
template <class Call>
void by_type(ncclDataType_t type, Call&& call) {
  switch (type) {
    case ncclInt8:
      return call(std::int8_t{});
    case ncclUint8:
      return call(std::uint8_t{});
    case ncclInt32:
      return call(std::int32_t{});
    case ncclUint32:
      return call(std::uint32_t{});
    case ncclInt64:
      return call(std::int64_t{});
    case ncclUint64:
      return call(std::uint64_t{});
    case ncclFloat16:
      return call(Half{});
    case ncclFloat32:
      return call(float{});
    case ncclFloat64:
      return call(double{});
    case ncclBfloat16:
      return call(Brain{});
    case ncclFloat8e4m3:
      return call(E4m3{});
    case ncclFloat8e5m2:
      return call(E5m2{});
    default:
      return;
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  std::size_t bytes = 0;
  by_type(type, [&](auto kind) { bytes = sizeof kind; });
  return bytes;
}

void reduce_into(void* to, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction) {
  by_type(type, [&](auto kind) {
    using T = decltype(kind);
    auto* a = static_cast<T*>(to);
    const auto* b = static_cast<const T*>(from);
    for (std::size_t i = 0; i < count; ++i) a[i] = element(a[i], b[i], reduction);
  });
}

void divide(void* data, std::size_t count, ncclDataType_t type, int ranks) {
  by_type(type, [&](auto kind) {
    auto* a = static_cast<decltype(kind)*>(data);
    for (std::size_t i = 0; i < count; ++i) a[i] = divided(a[i], ranks);
  });
}

float decode(std::uint16_t bits, int exponent, int mantissa, bool infinite) {
  const int top = (1 << exponent) - 1, bias = top / 2;
  const int e = (bits >> mantissa) & top, m = bits & ((1 << mantissa) - 1);
  const float sign = ((bits >> (exponent + mantissa)) & 1) != 0 ? -1.0F : 1.0F;
  if (infinite && e == top) return m == 0 ? sign * std::numeric_limits<float>::infinity() : std::nanf("");
  if (!infinite && e == top && m == (1 << mantissa) - 1) return std::nanf("");
  if (e == 0) return sign * std::ldexp(static_cast<float>(m), 1 - bias - mantissa);
  return sign * std::ldexp(static_cast<float>(m + (1 << mantissa)), e - bias - mantissa);
}

std::uint16_t encode(float value, int exponent, int mantissa, bool infinite) {
  const int top = (1 << exponent) - 1, bias = top / 2;
  const int sign = (std::signbit(value) ? 1 : 0) << (exponent + mantissa);
  const int not_a_number = (top << mantissa) + (1 << mantissa) - 1;
  if (std::isnan(value)) return static_cast<std::uint16_t>(not_a_number);
  const float size = std::fabs(value);
  const int largest = infinite ? (top << mantissa) - 1 : not_a_number - 1;
  const int beyond = infinite && mantissa + exponent > 7 ? top << mantissa : largest;  // 8 bits saturate
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | beyond);
  int bits = 0;
  if (size >= std::ldexp(1.0F, 1 - bias)) {  // to the nearest, ties to even; a carry moves into the exponent
    const int shift = 23 - mantissa;
    std::uint32_t whole = 0;
    std::memcpy(&whole, &size, sizeof whole);
    whole += ((whole >> shift) & 1U) + (1U << (shift - 1)) - 1;
    bits = static_cast<int>(whole >> shift) - ((127 - bias) << mantissa);
  } else {
    bits = static_cast<int>(std::nearbyint(std::ldexp(static_cast<double>(size), mantissa - 1 + bias)));
  }
  return static_cast<std::uint16_t>(sign | (bits > largest ? beyond : bits));
}

}  // namespace nccl_check::doubles
