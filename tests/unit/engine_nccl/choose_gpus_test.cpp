#include "engine/nccl/choose_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nccl_check::engine::nccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using verdict::Class;

std::vector<Known> four() {
  std::vector<Known> out;
  for (std::uint32_t i = 0; i < 4; ++i)
    out.push_back({i, i, "GPU-" + std::string(1, static_cast<char>('a' + i)) + "000",
                   "0000:" + std::to_string(i + 1) + "b:00.0", "NVIDIA H200", false});
  return out;
}

std::vector<std::uint32_t> numbers(Measured<std::vector<Chosen>>& chosen) {
  std::vector<std::uint32_t> out;
  if (chosen)
    for (const auto& one : *chosen) out.push_back(one.number);
  return out;
}

TEST(ChooseGpus, AllWhereNoneIsNamed) {
  auto chosen = choose_gpus({}, four());
  EXPECT_THAT(numbers(chosen), ElementsAre(0, 1, 2, 3));
}

TEST(ChooseGpus, NumbersAndUuidsInPciOrderEachOnce) {
  auto chosen = choose_gpus({"3", "GPU-b000", "1"}, four());
  EXPECT_THAT(numbers(chosen), ElementsAre(1, 3));
  auto prefix = choose_gpus({"GPU-c"}, four());
  EXPECT_THAT(numbers(prefix), ElementsAre(2));
}

TEST(ChooseGpus, NumbersAreTheDeviceFilesWhereThoseAreKnown) {
  auto known = four();
  known[0].minor = 3;
  known[3].minor = 0;
  auto chosen = choose_gpus({"0"}, known);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ((*chosen)[0].gpu.uuid, "GPU-d000");
  known[1].minor.reset();  // not all known: places count
  auto by_place = choose_gpus({"0"}, known);
  ASSERT_TRUE(by_place.ok());
  EXPECT_EQ((*by_place)[0].gpu.uuid, "GPU-a000");
}

TEST(ChooseGpus, OneThatIsNotThereIsBrokenAndNamed) {
  auto number = choose_gpus({"0", "7"}, four());
  ASSERT_FALSE(number.ok());
  EXPECT_EQ(number.failure().cls, Class::broken);
  EXPECT_THAT(number.failure().error.what, HasSubstr("GPU 7 "));
  EXPECT_THAT(number.failure().error.what, HasSubstr("the driver shows 0, 1, 2, 3"));
  auto uuid = choose_gpus({"GPU-ffff"}, four());
  ASSERT_FALSE(uuid.ok());
  EXPECT_THAT(uuid.failure().error.what, HasSubstr("GPU-ffff"));
  EXPECT_FALSE(choose_gpus({"GPU-"}, four()).ok());  // of several
  EXPECT_FALSE(choose_gpus({""}, four()).ok());
  EXPECT_FALSE(choose_gpus({"1x"}, four()).ok());
  auto none = choose_gpus({}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.failure().cls, Class::broken);
}

TEST(ChooseGpus, MigIsUntested) {
  auto part = choose_gpus({"MIG-GPU-a000/1/0"}, four());
  ASSERT_FALSE(part.ok());
  EXPECT_EQ(part.failure().cls, Class::untested);
  auto known = four();
  known[2].mig = true;
  auto whole = choose_gpus({"2"}, known);
  ASSERT_FALSE(whole.ok());
  EXPECT_EQ(whole.failure().cls, Class::untested);
  EXPECT_EQ(whole.failure().error.where, "GPU 2 (0000:3b:00.0)");
  EXPECT_TRUE(choose_gpus({"1"}, known).ok());  // another's MIG does not matter
}

TEST(ChooseGpus, AddressesAsSysfsWritesThem) {
  EXPECT_EQ(pci_address("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(pci_address("0000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(pci_address("00010000:01:00.0"), "00010000:01:00.0");
}

}  // namespace
}  // namespace nccl_check::engine::nccl
