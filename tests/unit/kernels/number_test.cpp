// Encoding small numbers, against the emulation's own way and known bits.
#include <gtest/gtest.h>

#include <cmath>

#include "emulation.hpp"
#include "kernels/number.hpp"

namespace nccl_check::kernels {
namespace {

constexpr Type floats[] = {Type::float16,  Type::float32,     Type::float64,
                           Type::bfloat16, Type::float8_e4m3, Type::float8_e5m2};

TEST(Numbers, EncodeRoundsAsTheEmulationDoes) {
  for (const Type type : floats) {
    for (std::uint64_t magnitude = 0; magnitude < 400; ++magnitude) {
      for (int exponent = -30; exponent <= 0; ++exponent) {
        for (const bool negative : {false, true}) {
          if (magnitude == 0 && negative) continue;
          const double value = std::ldexp(static_cast<double>(magnitude), exponent);
          ASSERT_EQ(encode(format_of(type), {negative, magnitude, exponent}),
                    emulation::from_double(type, negative ? -value : value))
              << static_cast<int>(type) << ": " << magnitude << " * 2^" << exponent;
        }
      }
    }
  }
}

TEST(Numbers, ValuesAreReadAsTheEmulationReadsThem) {
  for (const Type type : {Type::float16, Type::bfloat16, Type::float8_e4m3, Type::float8_e5m2}) {
    for (std::uint64_t bits = 0; bits <= emulation::mask(type); ++bits) {
      const double value = value_of(type, bits);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(value, emulation::to_double(type, bits));
      ASSERT_EQ(encode(format_of(type), decode(format_of(type), bits)) | (value == 0 ? bits : 0), bits);
    }
  }
  EXPECT_EQ(value_of(Type::float32, 0x3fc00000), 1.5);
  EXPECT_EQ(value_of(Type::float64, 0xc008000000000000), -3);
}

TEST(Numbers, ExtremesAndWhatIsNoNumber) {
  EXPECT_EQ(value_of(Type::float8_e4m3, highest(Type::float8_e4m3)), 448);
  EXPECT_EQ(value_of(Type::float8_e5m2, highest(Type::float8_e5m2)), 57344);
  EXPECT_EQ(value_of(Type::float16, lowest(Type::float16)), -65504);
  EXPECT_EQ(value_of(Type::int8, lowest(Type::int8)), -128);
  EXPECT_EQ(value_of(Type::int32, highest(Type::int32)), 2147483647);
  EXPECT_EQ(value_of(Type::uint8, highest(Type::uint8)), 255);
  EXPECT_EQ(value_of(Type::uint8, lowest(Type::uint8)), 0);
  EXPECT_EQ(value_of(Type::int8, 0xfd), -3);
  EXPECT_TRUE(std::isnan(value_of(Type::float8_e4m3, 0x7f)));
  EXPECT_TRUE(std::isnan(value_of(Type::float8_e5m2, 0x7d)));
  EXPECT_EQ(value_of(Type::float8_e5m2, 0xfc), -INFINITY);
  EXPECT_EQ(value_of(Type::float32, 0x7f800000), INFINITY);
}

}  // namespace
}  // namespace nccl_check::kernels
