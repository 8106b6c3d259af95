// Fill and verify: the GPU's bytes and findings are the host's.
#include <cstring>
#include <vector>

#include "driver.hpp"
#include "kernels/kernels.hpp"

namespace nccl_check::kernels {
namespace {

constexpr std::size_t margin = 64;
constexpr unsigned char canary = 0xc3;
using Bytes = std::vector<unsigned char>;

struct Shape {
  std::uint64_t count;
  std::uint64_t first;
  std::size_t offset;  // of the address
  unsigned grid, block;
};

// The larger count with every alignment would take long under a sanitizer and shows nothing more.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{0, 0, 0, 1, 32},
                                      {0, 3, 8, 2, 64},
                                      {1, 0, 0, 1, 1},
                                      {1, 5, 8, 3, 96},
                                      {7, 0, 0, 1, 256},
                                      {7, 13, 8, 2, 33},
                                      {7, 3, 1, 1, 128},
                                      {1000, 0, 0, 4, 256},
                                      {1000, 1, 0, 4, 256},
                                      {1000, 1, 8, 1, 64},
                                      {1000, 16, 0, 13, 100},
                                      {1000, 7, 3, 2, 1024},
                                      {1000, 1ULL << 40U, 0, 1, 512}};
  return all;
}

struct Setting {
  Type type;
  Reduction reduction;
  std::uint32_t rank, ranks;
};

class DataCheck {
 public:
  DataCheck(Driver& driver, Tally& tally, Setting setting, Shape shape)
      : driver_(driver),
        tally_(tally),
        setting_(setting),
        shape_(shape),
        bytes_(shape.count * size_of(setting.type)),
        memory_(driver, bytes_ + shape.offset + 2 * margin),
        found_(driver, sizeof(Mismatches)) {}

  void run() {
    Bytes right = expected_around();
    if (setting_.rank != all_ranks) {
      check_fill(right);
    } else {
      reveal(right);
      driver_.put(memory_.at(), right.data(), right.size());
    }
    check_findings(right, "right");
    if (shape_.count == 0) return;
    for (const std::uint64_t index : {shape_.count - 1, shape_.count / 2, std::uint64_t{0}}) {
      const std::size_t at = start() + index * size_of(setting_.type);
      right[at] ^= 1U;
      driver_.launch("nccl_check_flip", FlipArguments{memory_.pointer(), at}, 2, 32);
      check_findings(right, "flipped");
    }
    for (std::size_t i = start(); i < start() + bytes_; i += 5) right[i] ^= 0x10U;
    driver_.put(memory_.at(), right.data(), right.size());
    check_findings(right, "wrong in many places");
  }

 private:
  [[nodiscard]] std::size_t start() const { return margin + shape_.offset; }
  [[nodiscard]] Bytes expected_around() const { return Bytes(bytes_ + shape_.offset + 2 * margin, canary); }

  // What stands in a result, by verifying wrong data on the host one element at a time.
  void reveal(Bytes& bytes) const {
    const std::size_t size = size_of(setting_.type);
    for (std::uint64_t i = 0; i < shape_.count; ++i) {
      Mismatches found{};
      std::uint64_t bits = 0;
      verify({&bits, 1, shape_.first + i, seed_, setting_.type, setting_.reduction, setting_.rank,
              setting_.ranks, &found});
      if (found.wrong != 0) bits = found.expected;
      std::memcpy(bytes.data() + start() + i * size, &bits, size);
    }
  }

  void check_fill(Bytes& right) {
    driver_.set(memory_.at(), canary, right.size());
    FillArguments arguments{memory_.pointer(start()), shape_.count,  shape_.first,  seed_, setting_.type,
                            setting_.reduction,       setting_.rank, setting_.ranks};
    driver_.launch("nccl_check_fill", arguments, shape_.grid, shape_.block);
    Bytes got(right.size());
    driver_.get(got.data(), memory_.at(), got.size());
    arguments.data = right.data() + start();
    fill(arguments);
    tally_.check(got == right, name("fill"));
  }

  void check_findings(const Bytes& bytes, const char* state) {
    VerifyArguments arguments{memory_.pointer(start()),
                              shape_.count,
                              shape_.first,
                              seed_,
                              setting_.type,
                              setting_.reduction,
                              setting_.rank,
                              setting_.ranks,
                              found_.pointer<Mismatches>()};
    driver_.set(found_.at(), 0, sizeof(Mismatches));
    driver_.launch("nccl_check_verify", arguments, shape_.grid, shape_.block);
    Mismatches got{};
    driver_.get(&got, found_.at(), sizeof got);
    Mismatches right{};
    arguments.data = bytes.data() + start();
    arguments.found = &right;
    verify(arguments);
    const bool same = got.wrong == right.wrong && got.first_wrong == right.first_wrong &&
                      got.got == right.got && got.expected == right.expected;
    tally_.check(same, name("verify of data that is ") + state + ": " + std::to_string(got.wrong) +
                           " wrong, the first at " + std::to_string(got.first_wrong) +
                           ", where the host finds " + std::to_string(right.wrong) + " and " +
                           std::to_string(right.first_wrong));
  }

  [[nodiscard]] std::string name(const char* what) const {
    return std::string(what) + ", type " + std::to_string(static_cast<unsigned>(setting_.type)) +
           ", reduction " + std::to_string(static_cast<unsigned>(setting_.reduction)) + ", rank " +
           std::to_string(setting_.rank) + " of " + std::to_string(setting_.ranks) + ", " +
           std::to_string(shape_.count) + " elements from " + std::to_string(shape_.first) +
           " at address + " + std::to_string(shape_.offset);
  }

  static constexpr std::uint64_t seed_ = 0x123456789abcdef;
  Driver& driver_;
  Tally& tally_;
  Setting setting_;
  Shape shape_;
  std::size_t bytes_;
  Memory memory_;
  Memory found_;
};

}  // namespace

void check_data(Driver& driver, Tally& tally) {
  constexpr std::uint64_t large = (1U << 20U) + 3;
  for (std::uint32_t type = 0; type < type_count; ++type) {
    for (std::uint32_t reduction = 0; reduction < reduction_count; ++reduction) {
      Setting setting{static_cast<Type>(type), static_cast<Reduction>(reduction), 0, 1};
      for (const auto& [rank, ranks] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
               {3, 1}, {all_ranks, 1}, {1, 2}, {all_ranks, 3}, {5, 8}, {all_ranks, 1000}}) {
        setting.rank = rank;
        setting.ranks = ranks;
        for (const Shape& shape : shapes()) DataCheck(driver, tally, setting, shape).run();
      }
      setting.rank = 1;
      for (const std::uint32_t ranks : {1U, 8U}) {
        setting.ranks = ranks;
        DataCheck(driver, tally, setting, {large, 0, 0, 3 * driver.multiprocessors(), 256}).run();
      }
    }
    tally.line("fill and verify, type " + std::to_string(type));
  }
}

}  // namespace nccl_check::kernels
