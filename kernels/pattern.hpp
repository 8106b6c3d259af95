#pragma once
// The data that is moved and checked: what stands at a position follows by arithmetic, without any table of
// ranks, so that checking costs the same for two ranks and for ten thousand.
//
// Positions come in groups of 16 bytes. Every position has a code of 3 bits, hashed from group and seed.
//
// ranks == 1, for data that is only copied (rank: whose data it is): the hash's own bits, floats held between
// 2^-(a quarter of the exponents) and 2, so that they are finite and can be doubled. Reductions leave them as
// they are; premul_sum doubles them.
//
// ranks > 1: at each group `contributors` ranks in a row, at most 4, contribute and all others hold the
// reduction's neutral element. The first of them moves with the group by the golden ratio: any 4 * ranks
// groups in a row hold contributions of every rank. A contributor has a role, 0 to 3, and:
//
// - sum, premul_sum. Floats: the code's total T is split into (T + role) / contributors, rounded down, which
//   add up to T (Hermite's identity). |T| < 2^digits of the type, so every partial sum, in any order and
//   grouping, is exact; doubled it still is. Integers: random numbers, but for the last role's, which brings
//   the sum to T; integers wrap exactly.
// - prod. Floats: powers of two whose exponents are split in that way, the whole at most 2^7, one of them
//   negative for half of the codes. Integers: odd numbers, which wrap exactly.
// - max, min. One role (which, follows from the code) holds T, the others a value far on the losing side.
// - avg on integers. As sum, T positive: NCCL adds, then divides by n and truncates. T / n is 0 where n is
//   larger than the type's numbers (int8 with 128 ranks): nothing can be told there.
// - avg on floats. NCCL multiplies each contribution by r = 1/n, rounded first to float and then to the type
//   (8-bit types too), then adds; some of its kernels add, then multiply. Here 2 contributors hold 2v and -v,
//   v a power of two from 1 to 8, so every product with r and every sum is exact, both orders give v r and no
//   tolerance is needed. Where r rounds to 0 (e4m3 with 1,024 ranks or more) NCCL's result is 0 too.
#include <cstdint>

#include "kernels/number.hpp"

namespace nccl_check::kernels {

constexpr std::uint32_t most_contributors = 4;
constexpr std::uint32_t codes = 8;
constexpr std::uint32_t group_bytes = 16;
constexpr std::uint32_t table_words = (most_contributors + 1) * codes * 2;

struct Pattern {
  Type type;
  Reduction reduction;
  std::uint32_t ranks;
  std::uint32_t rank;          // whose data; all_ranks: the reduction of all
  std::uint32_t contributors;  // at a position
  std::uint64_t key;           // seed, and with one rank that rank, mixed
};

NCCL_CHECK_BOTH constexpr std::uint64_t mix(std::uint64_t value) {  // the finalizer of SplitMix64
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

NCCL_CHECK_BOTH constexpr Pattern make_pattern(Type type, Reduction reduction, std::uint64_t seed,
                                               std::uint32_t rank, std::uint32_t ranks) {
  const bool halves = reduction == Reduction::avg && format_of(type).floating;
  const std::uint32_t most = halves ? 2 : most_contributors;
  const std::uint64_t key = mix(seed);
  const bool single = ranks <= 1;
  return {type,
          reduction,
          single ? 1 : ranks,
          rank,
          ranks < most ? ranks : most,
          single ? mix(key ^ (rank == all_ranks ? 0 : rank)) : key};
}

// 128 bits of a group.
struct Words {
  std::uint32_t word[4];
};

// A round of Philox 2x32 (Salmon et al., SC11), its key's schedule left out.
NCCL_CHECK_BOTH void mix_round(std::uint32_t& high, std::uint32_t& low, std::uint32_t key) {
  const std::uint64_t product = std::uint64_t{low} * 0xd256d193U;
  const std::uint32_t next = static_cast<std::uint32_t>(product >> 32) ^ high ^ key;
  high = static_cast<std::uint32_t>(product);
  low = next;
}

// Four rounds give 64 bits, two more another 64 (`wide`).
NCCL_CHECK_BOTH Words hash_group(std::uint64_t key, std::uint64_t group, bool wide) {
  const std::uint32_t first = static_cast<std::uint32_t>(key);
  const std::uint32_t second = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t low = static_cast<std::uint32_t>(group);
  std::uint32_t high = static_cast<std::uint32_t>(group >> 32);
  mix_round(high, low, first);
  mix_round(high, low, second);
  mix_round(high, low, first + 0x9e3779b9U);
  mix_round(high, low, second + 0x9e3779b9U);
  Words words{{low, high, 0, 0}};
  if (wide) {
    mix_round(high, low, first + 0x3c6ef372U);
    mix_round(high, low, second + 0x3c6ef372U);
    words.word[2] = low;
    words.word[3] = high;
  }
  return words;
}

NCCL_CHECK_BOTH std::uint32_t first_contributor(const Pattern& pattern, std::uint64_t group) {
  const std::uint32_t turn =
      static_cast<std::uint32_t>(group) * 0x9e3779b9U + static_cast<std::uint32_t>(pattern.key >> 17);
  return static_cast<std::uint32_t>((std::uint64_t{turn} * pattern.ranks) >> 32);
}

// The rank's role at this group; `contributors`: it holds the neutral element.
NCCL_CHECK_BOTH std::uint32_t role_at(const Pattern& pattern, std::uint64_t group) {
  const std::uint32_t first = first_contributor(pattern, group);
  const std::uint32_t behind =
      pattern.rank >= first ? pattern.rank - first : pattern.rank + pattern.ranks - first;
  return behind < pattern.contributors ? behind : pattern.contributors;
}

// The code's total T: 8 different ones, the lower digits from the seed.
NCCL_CHECK_BOTH Number total_of(const Pattern& pattern, std::uint32_t code) {
  const Format format = format_of(pattern.type);
  const std::uint64_t random = mix(pattern.key + code);
  if (format.floating) {
    const int free = format.digits - 3;
    return {(code & 1) != 0, (std::uint64_t{4 + code / 2} << free) + (random & mask_of(free)), 0};
  }
  const int free = format.bits - 6;
  const std::uint64_t magnitude = (std::uint64_t{16 + 2 * code} << free) + (random & mask_of(free));
  // NCCL before it told signed from unsigned here divided wrongly below 0.
  const bool negative = format.is_signed && (code & 1) != 0 && pattern.reduction != Reduction::avg;
  return {negative, magnitude, 0};
}

NCCL_CHECK_BOTH std::uint64_t neutral_of(const Pattern& pattern) {
  switch (pattern.reduction) {
    case Reduction::prod:
      return encode(format_of(pattern.type), {false, 1, 0});
    case Reduction::max:
      return lowest(pattern.type);
    case Reduction::min:
      return highest(pattern.type);
    default:
      return 0;
  }
}

// Loses against every total, and is not the neutral element.
NCCL_CHECK_BOTH std::uint64_t loser_of(const Pattern& pattern) {
  const Format format = format_of(pattern.type);
  const std::uint64_t neutral = neutral_of(pattern);
  if (format.floating) return neutral - (std::uint64_t{1} << (format.digits - 1));  // half of it
  return pattern.reduction == Reduction::max ? neutral + 1 : neutral - 1;
}

NCCL_CHECK_BOTH std::uint64_t factor_of(const Pattern& pattern, std::uint32_t role, std::uint32_t code) {
  const Format format = format_of(pattern.type);
  if (!format.floating)
    return (mix(pattern.key ^ (std::uint64_t{code + 1} << 32) ^ role) | 3) & mask_of(format.bits);
  const int exponent = static_cast<int>((4 + code / 2 + role) / pattern.contributors);
  return encode(format, {(code & 1) != 0 && role == code / 2 % pattern.contributors, 1, exponent});
}

// An integer's share of the total: random, but for the last, which brings the sum to the total.
NCCL_CHECK_BOTH std::uint64_t share_of(const Pattern& pattern, std::uint32_t role, std::uint32_t code) {
  const Format format = format_of(pattern.type);
  const auto random = [&](std::uint32_t of) {
    return mix(pattern.key ^ (std::uint64_t{code + 9} << 32) ^ of) | 1;
  };
  if (role + 1 < pattern.contributors) return random(role) & mask_of(format.bits);
  std::uint64_t rest = encode(format, total_of(pattern, code));
  for (std::uint32_t other = 0; other < role; ++other) rest -= random(other);
  return rest & mask_of(format.bits);
}

// What a contributor holds.
NCCL_CHECK_BOTH std::uint64_t contribution(const Pattern& pattern, std::uint32_t role, std::uint32_t code) {
  const Format format = format_of(pattern.type);
  if (role >= pattern.contributors) return neutral_of(pattern);
  if (pattern.reduction == Reduction::prod) return factor_of(pattern, role, code);
  const Number total = total_of(pattern, code);
  if (pattern.reduction == Reduction::max || pattern.reduction == Reduction::min) {
    return role == code % pattern.contributors ? encode(format, total) : loser_of(pattern);
  }
  if (pattern.reduction == Reduction::avg && format.floating) {
    const int exponent = static_cast<int>(code / 2 + (role == 0 ? 1 : 0));
    return encode(format, {((code + role) & 1) != 0, 1, exponent});
  }
  if (!format.floating) return share_of(pattern, role, code);
  return encode(format, {total.negative, (total.magnitude + role) / pattern.contributors, 0});
}

// NCCL's factor for averaging floats: 1/n to float, then to the type.
NCCL_CHECK_BOTH Number reciprocal(Type type, std::uint32_t ranks) {
  const Format narrow = format_of(type);
  const Format wide = format_of(Type::float64);
  union {
    double number;
    std::uint64_t bits;
  } quotient;
  quotient.number = 1.0 / ranks;
  const Number exact = decode(wide, quotient.bits);
  if (type == Type::float64) return exact;
  const Format single = format_of(Type::float32);
  const Number rounded = decode(single, encode(single, exact));
  return decode(narrow, encode(narrow, rounded));
}

// What reducing all ranks' data gives.
NCCL_CHECK_BOTH std::uint64_t result_of(const Pattern& pattern, std::uint32_t code) {
  const Format format = format_of(pattern.type);
  const Number total = total_of(pattern, code);
  switch (pattern.reduction) {
    case Reduction::prod: {
      if (format.floating) return encode(format, {(code & 1) != 0, 1, static_cast<int>(4 + code / 2)});
      std::uint64_t product = 1;
      for (std::uint32_t role = 0; role < pattern.contributors; ++role)
        product *= factor_of(pattern, role, code);
      return product & mask_of(format.bits);
    }
    case Reduction::avg: {
      if (!format.floating) return total.magnitude / pattern.ranks;
      const Number r = reciprocal(pattern.type, pattern.ranks);
      return encode(format, {(code & 1) != 0, r.magnitude, r.exponent + static_cast<int>(code / 2)});
    }
    case Reduction::premul_sum:
      return encode(format, {total.negative, total.magnitude * premul_factor, 0});
    default:
      return encode(format, total);
  }
}

}  // namespace nccl_check::kernels
