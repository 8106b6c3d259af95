#include "engine/fabric/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nccl_check::engine::fabric {
namespace {

constexpr std::uint32_t values =
    1021;  // a prime: sums over powers of two of ranks still depend on the position

// The loops below run over at most this many elements at a time, so that positions are 32-bit there.
constexpr std::uint64_t block = 1U << 20U;

inline std::uint32_t scramble(std::uint32_t x) {
  x *= 0x9E3779B1U;
  x ^= x >> 15U;
  x *= 0x85EBCA77U;
  x ^= x >> 13U;
  return x;
}

// One key a block of 2^20 positions: position and key together are what scramble() sees.
std::uint32_t block_key(std::uint64_t seed, std::uint64_t block_number, std::uint64_t rank) {
  const std::uint64_t key = mix(mix(seed, block_number), rank);
  return static_cast<std::uint32_t>(key ^ (key >> 32U));
}

// The value of rank 0 at a position; rank r has (that + r) mod 1021.
inline std::uint32_t base_value(std::uint32_t position, std::uint32_t key) {
  return ((scramble(position ^ key) >> 16U) * values) >> 16U;
}

struct Sum {  // over ranks 0 .. n-1 of (a + r) mod 1021, n = 1021 * rounds + rest
  std::uint32_t rest;
  std::uint32_t constant;
  explicit Sum(int ranks) {
    const auto n = static_cast<std::uint32_t>(ranks);
    rest = n % values;
    constant = (n / values) * (values * (values - 1) / 2);
    if (rest > 0) constant += rest * (rest - 1) / 2;
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t a) const {
    const std::uint32_t end = a + rest;
    const std::uint32_t wrapped = end > values ? end - values : 0;
    return constant + rest * a - values * wrapped;
  }
};

template <class Expected, class Element>
Wrong check(const Element* data, std::uint64_t first, std::uint64_t count, std::uint64_t offset,
            const Expected& expected_in_block) {
  Wrong wrong;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = first + done;
    const std::uint64_t length = std::min(count - done, block - at % block);
    const auto start = static_cast<std::uint32_t>(at % block);
    const auto expected = expected_in_block(at / block);
    const Element* const part = data + done;
    std::uint32_t bad = 0;
    for (std::uint32_t i = 0; i < length; ++i) bad += part[i] != expected(start + i) ? 1U : 0U;
    if (bad != 0 && wrong.count == 0) {
      std::uint32_t i = 0;
      while (part[i] == expected(start + i)) ++i;
      wrong.first =
          fmt::format("element {}: got {}, expected {}", offset + at + i, part[i], expected(start + i));
    }
    wrong.count += bad;
    done += length;
  }
  return wrong;
}

template <class Element, class Value>
void fill(Element* data, std::uint64_t first, std::uint64_t count, const Value& value_in_block) {
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = first + done;
    const std::uint64_t length = std::min(count - done, block - at % block);
    const auto start = static_cast<std::uint32_t>(at % block);
    const auto value = value_in_block(at / block);
    Element* const part = data + done;
    for (std::uint32_t i = 0; i < length; ++i) part[i] = value(start + i);
    done += length;
  }
}

}  // namespace

std::uint64_t mix(std::uint64_t seed, std::uint64_t with) {
  std::uint64_t x = seed ^ (with + 0x9E3779B97F4A7C15U);
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

void Wrong::add(const Wrong& other) {
  if (count == 0) first = other.first;
  count += other.count;
}

void fill_floats(float* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed, int rank) {
  const std::uint32_t turn = static_cast<std::uint32_t>(rank) % values;
  fill(data, first, count, [=](std::uint64_t number) {
    return [key = block_key(seed, number, 0), turn](std::uint32_t position) {
      const std::uint32_t value = base_value(position, key) + turn;
      return static_cast<float>(static_cast<std::int32_t>(value >= values ? value - values : value));
    };
  });
}

Wrong check_sums(const float* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed, int ranks) {
  const Sum sum(ranks);
  return check(data, first, count, 0, [&](std::uint64_t number) {
    return [key = block_key(seed, number, 0), sum](std::uint32_t position) {
      return static_cast<float>(static_cast<std::int32_t>(sum.of(base_value(position, key))));
    };
  });
}

void fill_words(std::uint32_t* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed, int rank) {
  fill(data, first, count, [=](std::uint64_t number) {
    return [key = block_key(seed, number, static_cast<std::uint64_t>(rank) + 1)](std::uint32_t position) {
      return scramble(position ^ key);
    };
  });
}

Wrong check_words(const std::uint32_t* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed,
                  int rank, std::uint64_t offset) {
  return check(data, first, count, offset, [&](std::uint64_t number) {
    return [key = block_key(seed, number, static_cast<std::uint64_t>(rank) + 1)](std::uint32_t position) {
      return scramble(position ^ key);
    };
  });
}

}  // namespace nccl_check::engine::fabric
