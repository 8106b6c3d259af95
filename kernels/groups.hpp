#pragma once
// The pattern 16 bytes at a time: a small table of every role's and code's bits, made once a launch, and a
// handful of instructions a group.
#include "kernels/pattern.hpp"

namespace nccl_check::kernels {

NCCL_CHECK_BOTH std::uint32_t table_rows(const Pattern& pattern) {
  return pattern.rank == all_ranks ? 1 : pattern.contributors + 1;
}

// Two-byte types lie as 8 low bytes and 8 high ones, so that both can be picked by byte.
NCCL_CHECK_BOTH void put_entry(std::uint32_t* table, const Pattern& pattern, std::uint32_t row,
                               std::uint32_t code) {
  const std::uint64_t bits =
      pattern.rank == all_ranks ? result_of(pattern, code) : contribution(pattern, row, code);
  const int size = format_of(pattern.type).bits / 8;
  unsigned char* bytes = reinterpret_cast<unsigned char*>(table);
  if (size == 1) {
    bytes[row * codes + code] = static_cast<unsigned char>(bits);
  } else if (size == 2) {
    bytes[row * codes * 2 + code] = static_cast<unsigned char>(bits);
    bytes[row * codes * 2 + codes + code] = static_cast<unsigned char>(bits >> 8);
  } else if (size == 4) {
    table[row * codes + code] = static_cast<std::uint32_t>(bits);
  } else {
    table[(row * codes + code) * 2] = static_cast<std::uint32_t>(bits);
    table[(row * codes + code) * 2 + 1] = static_cast<std::uint32_t>(bits >> 32);
  }
}

// The 4 bytes of low and high (8 bytes) that the selector's 4 lower nibbles name.
NCCL_CHECK_BOTH std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  std::uint32_t picked = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    picked |= static_cast<std::uint32_t>(both >> ((selector >> (4 * i) & 7) * 8) & 0xff) << (8 * i);
  }
  return picked;
#endif
}

// How one rank's data is made from hashed bits; the first of each pair is for even words.
struct Clamp {
  std::uint32_t keep[2];
  std::uint32_t set[2];
  std::uint32_t add[2];  // doubles a float: 1 in the exponent
  bool shift;            // doubles an integer
};

NCCL_CHECK_BOTH Clamp make_clamp(const Pattern& pattern) {
  const Format format = format_of(pattern.type);
  const bool twice = pattern.rank == all_ranks && pattern.reduction == Reduction::premul_sum;
  if (!format.floating) return {{~0U, ~0U}, {0, 0}, {0, 0}, twice};
  // The exponent's highest bit 0 and the next one 1.
  std::uint64_t clear = std::uint64_t{1} << (format.bits - 2);
  std::uint64_t set = clear >> 1;
  std::uint64_t add = twice ? std::uint64_t{1} << (format.digits - 1) : 0;
  for (int bits = format.bits; bits < 64; bits *= 2) {
    clear |= clear << bits;
    set |= set << bits;
    add |= add << bits;
  }
  return {{~static_cast<std::uint32_t>(clear), ~static_cast<std::uint32_t>(clear >> 32)},
          {static_cast<std::uint32_t>(set), static_cast<std::uint32_t>(set >> 32)},
          {static_cast<std::uint32_t>(add), static_cast<std::uint32_t>(add >> 32)},
          false};
}

template <int size>
NCCL_CHECK_BOTH Words single_group(const Pattern& pattern, const Clamp& clamp, std::uint64_t group) {
  Words words = hash_group(pattern.key, group, true);
  for (int i = 0; i < 4; ++i) {
    std::uint32_t& word = words.word[i];
    word = ((word & clamp.keep[i % 2]) | clamp.set[i % 2]) + clamp.add[i % 2];
  }
  if (clamp.shift) {
    for (int i = 3; i >= 0; --i) {
      std::uint32_t& word = words.word[i];
      if (size == 1) word = word << 1 & 0xfefefefeU;
      if (size == 4) word <<= 1;
      if (size == 8) word = word << 1 | (i % 2 == 1 ? words.word[i - 1] >> 31 : 0);
    }
  }
  return words;
}

template <int size>
NCCL_CHECK_BOTH Words table_group(const Pattern& pattern, const std::uint32_t* table, std::uint64_t group) {
  const Words hash = hash_group(pattern.key, group, false);
  const std::uint32_t* row =
      pattern.rank == all_ranks ? table : table + role_at(pattern, group) * codes * size / 4;
  Words words;
  if (size == 1) {
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t selector = hash.word[half] & 0x77777777U;
      words.word[2 * half] = pick_bytes(row[0], row[1], selector);
      words.word[2 * half + 1] = pick_bytes(row[0], row[1], selector >> 16);
    }
  } else if (size == 2) {
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t selector = (hash.word[0] & 0x77777777U) >> (16 * half);
      const std::uint32_t low = pick_bytes(row[0], row[1], selector);
      const std::uint32_t high = pick_bytes(row[2], row[3], selector);
      words.word[2 * half] = pick_bytes(low, high, 0x5140);
      words.word[2 * half + 1] = pick_bytes(low, high, 0x7362);
    }
  } else if (size == 4) {
    for (int i = 0; i < 4; ++i) words.word[i] = row[hash.word[0] >> (4 * i) & 7];
  } else {
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t entry = (hash.word[0] >> (4 * i) & 7) * 2;
      words.word[2 * i] = row[entry];
      words.word[2 * i + 1] = row[entry + 1];
    }
  }
  return words;
}

// The 16 bytes of a group, from a table that put_entry filled (one rank alone needs none).
template <int size>
NCCL_CHECK_BOTH Words group_of(const Pattern& pattern, const Clamp& clamp, const std::uint32_t* table,
                               std::uint64_t group) {
  if (pattern.ranks == 1) return single_group<size>(pattern, clamp, group);
  return table_group<size>(pattern, table, group);
}

template <int size>
NCCL_CHECK_BOTH std::uint64_t element_of(const Words& words, std::uint32_t index) {
  if (size == 8) return std::uint64_t{words.word[2 * index + 1]} << 32 | words.word[2 * index];
  const std::uint32_t bit = index * size * 8;
  return words.word[bit / 32] >> (bit % 32) & static_cast<std::uint32_t>(mask_of(size * 8));
}

NCCL_CHECK_BOTH std::uint64_t element_at(const Pattern& pattern, std::uint64_t position) {
  const auto size = static_cast<std::uint32_t>(format_of(pattern.type).bits) / 8;
  const std::uint64_t group = position / (group_bytes / size);
  const auto index = static_cast<std::uint32_t>(position % (group_bytes / size));
  if (pattern.ranks > 1) {
    const std::uint32_t code = hash_group(pattern.key, group, false).word[index / 8] >> (index % 8 * 4) & 7;
    return pattern.rank == all_ranks ? result_of(pattern, code)
                                     : contribution(pattern, role_at(pattern, group), code);
  }
  const Clamp clamp = make_clamp(pattern);
  switch (size) {
    case 1:
      return element_of<1>(single_group<1>(pattern, clamp, group), index);
    case 2:
      return element_of<2>(single_group<2>(pattern, clamp, group), index);
    case 4:
      return element_of<4>(single_group<4>(pattern, clamp, group), index);
    default:
      return element_of<8>(single_group<8>(pattern, clamp, group), index);
  }
}

// The bits at one position: what a rank fills in, and what reducing all ranks' data gives.
NCCL_CHECK_BOTH std::uint64_t value(Type type, Reduction reduction, std::uint64_t seed,
                                    std::uint64_t position, std::uint32_t rank, std::uint32_t ranks) {
  return element_at(make_pattern(type, reduction, seed, rank, ranks), position);
}
NCCL_CHECK_BOTH std::uint64_t expected(Type type, Reduction reduction, std::uint64_t seed,
                                       std::uint64_t position, std::uint32_t ranks) {
  return element_at(make_pattern(type, reduction, seed, all_ranks, ranks), position);
}

// Where a range of positions lies in groups.
struct Range {
  std::uint64_t first_group, last_group;  // those touched: first to before last
  std::uint64_t full_begin, full_end;     // those that are whole
  std::uint64_t begin, end;               // positions
};

NCCL_CHECK_BOTH Range range_of(std::uint64_t first, std::uint64_t count, std::uint32_t size) {
  const std::uint64_t elements = group_bytes / size;
  const std::uint64_t end = first + count;
  Range range{first / elements,
              (end + elements - 1) / elements,
              (first + elements - 1) / elements,
              end / elements,
              first,
              end};
  if (count == 0) range.last_group = range.first_group;
  if (range.full_end < range.full_begin) range.full_end = range.full_begin;
  return range;
}

}  // namespace nccl_check::kernels
