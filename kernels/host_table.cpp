// The host functions by their kernels' names, and values as people read them.
#include <array>
#include <cmath>
#include <limits>

#include "kernels/number.hpp"

namespace nccl_check::kernels {
namespace {

template <class Arguments>
const Arguments& as(const void* arguments) {
  return *static_cast<const Arguments*>(arguments);
}

std::uint64_t nothing_moved(const void*) {
  return 0;
}

constexpr std::array<Kernel, 6> table{{
    {"nccl_check_fill", sizeof(FillArguments), [](const void* a) { fill(as<FillArguments>(a)); },
     [](const void* a) { return as<FillArguments>(a).count * size_of(as<FillArguments>(a).type); }},
    {"nccl_check_verify", sizeof(VerifyArguments), [](const void* a) { verify(as<VerifyArguments>(a)); },
     [](const void* a) { return as<VerifyArguments>(a).count * size_of(as<VerifyArguments>(a).type); }},
    {"nccl_check_copy", sizeof(StreamArguments), [](const void* a) { copy(as<StreamArguments>(a)); },
     [](const void* a) { return 2 * as<StreamArguments>(a).bytes; }},
    {"nccl_check_triad", sizeof(StreamArguments), [](const void* a) { triad(as<StreamArguments>(a)); },
     [](const void* a) { return 3 * as<StreamArguments>(a).bytes; }},
    {"nccl_check_latch", sizeof(LatchArguments), [](const void* a) { latch(as<LatchArguments>(a)); },
     nothing_moved},
    {"nccl_check_flip", sizeof(FlipArguments), [](const void* a) { flip(as<FlipArguments>(a)); },
     nothing_moved},
}};

double integer_value(Format format, std::uint64_t bits) {
  bits &= mask_of(format.bits);
  const bool negative = format.is_signed && (bits >> (format.bits - 1) & 1) != 0;
  if (!negative) return static_cast<double>(bits);
  return -static_cast<double>((0 - bits) & mask_of(format.bits));
}

}  // namespace

const Kernel* find_kernel(std::string_view name) {
  for (const Kernel& kernel : table) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

double value_of(Type type, std::uint64_t bits) {
  const Format format = format_of(type);
  if (!format.floating) return integer_value(format, bits);
  const std::uint64_t magnitude = bits & mask_of(format.bits - 1);
  const bool negative = (bits >> (format.bits - 1) & 1) != 0;
  if (magnitude > highest(type)) {
    const bool infinite = type != Type::float8_e4m3 && magnitude == highest(type) + 1;
    if (!infinite) return std::numeric_limits<double>::quiet_NaN();
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  const Number number = decode(format, bits);
  const double value = std::ldexp(static_cast<double>(number.magnitude), number.exponent);
  return negative ? -value : value;
}

}  // namespace nccl_check::kernels
