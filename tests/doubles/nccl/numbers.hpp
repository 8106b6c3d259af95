#pragma once
// NCCL's data types, and reductions over them: computed in a wider type where there is one, rounded once.
#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace nccl_check::doubles {

std::size_t bytes_of(ncclDataType_t type);  // an element; 0: no such type

// to[i] = to[i] with from[i]. avg adds up; divide() ends it.
void reduce_into(void* to, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction);
void divide(void* data, std::size_t count, ncclDataType_t type, int ranks);

// Small floats: exponent bits, mantissa bits; e4m3 has no infinity and one NaN.
float decode(std::uint16_t bits, int exponent, int mantissa, bool infinite);
std::uint16_t encode(float value, int exponent, int mantissa, bool infinite);

}  // namespace nccl_check::doubles
