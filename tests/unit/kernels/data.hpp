#pragma once
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace nccl_check::kernels {

struct Case {
  Type type;
  Reduction reduction;
};

inline std::string name_of(Case tested) {
  static constexpr const char* types[] = {"int8",    "uint8",    "int32",       "uint32",
                                          "int64",   "uint64",   "float16",     "float32",
                                          "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  static constexpr const char* reductions[] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
  return std::string(types[static_cast<int>(tested.type)]) + "_" +
         reductions[static_cast<int>(tested.reduction)];
}
inline void PrintTo(Case tested, std::ostream* out) {
  *out << name_of(tested);
}

inline std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (std::uint32_t type = 0; type < type_count; ++type) {
    for (std::uint32_t reduction = 0; reduction < reduction_count; ++reduction) {
      cases.push_back({static_cast<Type>(type), static_cast<Reduction>(reduction)});
    }
  }
  return cases;
}

using Bytes = std::vector<unsigned char>;

struct Data {
  Case tested;
  std::uint64_t seed = 1;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t first = 0;
};

inline Bytes filled(const Data& data, std::uint64_t count) {
  Bytes bytes(count * size_of(data.tested.type));
  fill({bytes.data(), count, data.first, data.seed, data.tested.type, data.tested.reduction, data.rank,
        data.ranks});
  return bytes;
}
inline Mismatches verified(const Data& data, const Bytes& bytes) {
  Mismatches found{};
  verify({bytes.data(), bytes.size() / size_of(data.tested.type), data.first, data.seed, data.tested.type,
          data.tested.reduction, data.rank, data.ranks, &found});
  return found;
}
inline std::uint64_t element(Type type, const Bytes& bytes, std::uint64_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size_of(type), size_of(type));
  return bits;
}
inline void set_element(Type type, Bytes& bytes, std::uint64_t index, std::uint64_t bits) {
  std::memcpy(bytes.data() + index * size_of(type), &bits, size_of(type));
}

}  // namespace nccl_check::kernels
