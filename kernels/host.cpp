// The kernels' meaning on the host: for the stand-ins of the CUDA driver, and what the kernels are tested
// with.
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/groups.hpp"

namespace nccl_check::kernels {
namespace {

struct HostGroups {
  Pattern pattern;
  Clamp clamp;
  std::uint32_t table[table_words];

  explicit HostGroups(const Pattern& made) : pattern(made), clamp(make_clamp(made)), table{} {
    if (pattern.ranks == 1) return;
    for (std::uint32_t row = 0; row < table_rows(pattern); ++row) {
      for (std::uint32_t code = 0; code < codes; ++code) put_entry(table, pattern, row, code);
    }
  }
};

// use(position, index of the first element wanted, how many, the group's words), group by group.
template <int size, class Use>
void each_group(const HostGroups& groups, const Range& range, Use use) {
  constexpr std::uint64_t elements = group_bytes / size;
  for (std::uint64_t group = range.first_group; group < range.last_group; ++group) {
    const std::uint64_t start = group * elements;
    const std::uint64_t begin = start < range.begin ? range.begin : start;
    const std::uint64_t end = start + elements > range.end ? range.end : start + elements;
    use(begin, static_cast<std::uint32_t>(begin - start), static_cast<std::uint32_t>(end - begin),
        group_of<size>(groups.pattern, groups.clamp, groups.table, group));
  }
}

template <int size>
void fill_elements(const FillArguments& arguments, const HostGroups& groups) {
  auto* data = static_cast<unsigned char*>(arguments.data);
  each_group<size>(groups, range_of(arguments.first, arguments.count, size),
                   [&](std::uint64_t position, std::uint32_t index, std::uint32_t count, const Words& words) {
                     const auto* bytes = reinterpret_cast<const unsigned char*>(words.word);
                     std::memcpy(data + (position - arguments.first) * size, bytes + index * size,
                                 count * size);
                   });
}

template <int size>
void verify_elements(const VerifyArguments& arguments, const HostGroups& groups) {
  const auto* data = static_cast<const unsigned char*>(arguments.data);
  Mismatches& found = *arguments.found;
  each_group<size>(groups, range_of(arguments.first, arguments.count, size),
                   [&](std::uint64_t position, std::uint32_t index, std::uint32_t count, const Words& words) {
                     Words got = words;
                     std::memcpy(reinterpret_cast<unsigned char*>(got.word) + index * size,
                                 data + (position - arguments.first) * size, count * size);
                     if (std::memcmp(got.word, words.word, sizeof got.word) == 0) return;
                     for (std::uint32_t i = 0; i < count; ++i) {
                       const std::uint64_t is = element_of<size>(got, index + i);
                       const std::uint64_t should = element_of<size>(words, index + i);
                       if (is == should) continue;
                       ++found.wrong;
                       if (found.first_wrong != 0 && found.first_wrong <= position + i + 1) continue;
                       found.first_wrong = position + i + 1;
                       found.got = is;
                       found.expected = should;
                     }
                   });
}

template <class Run>
void by_size(Type type, Run run) {
  switch (size_of(type)) {
    case 1:
      return run(std::integral_constant<int, 1>());
    case 2:
      return run(std::integral_constant<int, 2>());
    case 4:
      return run(std::integral_constant<int, 4>());
    default:
      return run(std::integral_constant<int, 8>());
  }
}

double double_at(const void* data, std::uint64_t index) {
  double value = 0;
  std::memcpy(&value, static_cast<const unsigned char*>(data) + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

std::size_t size_of(Type type) {
  return static_cast<std::size_t>(format_of(type).bits) / 8;
}

void fill(const FillArguments& arguments) {
  const HostGroups groups(
      make_pattern(arguments.type, arguments.reduction, arguments.seed, arguments.rank, arguments.ranks));
  by_size(arguments.type, [&](auto size) { fill_elements<size()>(arguments, groups); });
}

void verify(const VerifyArguments& arguments) {
  const HostGroups groups(
      make_pattern(arguments.type, arguments.reduction, arguments.seed, arguments.rank, arguments.ranks));
  by_size(arguments.type, [&](auto size) { verify_elements<size()>(arguments, groups); });
}

void copy(const StreamArguments& arguments) {
  if (arguments.bytes != 0) std::memcpy(arguments.to, arguments.from, arguments.bytes);
}

void triad(const StreamArguments& arguments) {
  for (std::uint64_t i = 0; i < arguments.bytes / sizeof(double); ++i) {
    const double tripled = 3 * double_at(arguments.other, i);  // rounded by itself, as the kernel does
    const double sum = double_at(arguments.from, i) + tripled;
    std::memcpy(static_cast<unsigned char*>(arguments.to) + i * sizeof sum, &sum, sizeof sum);
  }
}

void latch(const LatchArguments& arguments) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(arguments.most_ns);
  while (static_cast<std::int32_t>(*arguments.flag - arguments.value) < 0 &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void flip(const FlipArguments& arguments) {
  static_cast<unsigned char*>(arguments.data)[arguments.offset] ^= 1U;
}

}  // namespace nccl_check::kernels
