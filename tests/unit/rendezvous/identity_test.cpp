#include "job/rendezvous/identity.hpp"

#include <gmock/gmock.h>

namespace nccl_check::rendezvous {
namespace {

using testing::ElementsAre;

std::vector<std::uint16_t> ports(JobIdentity job, PortRange range) {
  auto found = ports_of(job, range);
  return found ? *found : std::vector<std::uint16_t>{};
}

TEST(Ports, FollowTheJobIdAndThenTheNextOnes) {
  EXPECT_THAT(ports({"c", 5}, {61'000, 61'999}),
              ElementsAre(61'005, 61'006, 61'007, 61'008, 61'009, 61'010, 61'011, 61'012));
  EXPECT_EQ(ports({"c", 1'005}, {61'000, 61'999}).front(), 61'005);
}

TEST(Ports, WrapAroundAtTheEndOfTheRange) {
  EXPECT_THAT(ports({"c", 9}, {100, 109}), ElementsAre(109, 100, 101, 102, 103, 104, 105, 106));
}

TEST(Ports, AreNoMoreThanTheRangeHas) {
  EXPECT_THAT(ports({"c", 7}, {100, 102}), ElementsAre(101, 102, 100));
  EXPECT_THAT(ports({"c", 7}, {65'535, 65'535}), ElementsAre(65'535));
}

TEST(Ports, OfStepsDifferFromTheJobsAndFromEachOther) {
  const PortRange range{61'000, 61'999};
  const auto job = ports({"c", 5}, range).front();
  const auto step0 = ports({"c", 5, 0}, range).front();
  const auto step1 = ports({"c", 5, 1}, range).front();
  EXPECT_NE(job, step0);
  EXPECT_NE(step0, step1);
  EXPECT_NE(job, step1);
}

TEST(Ports, StayInTheRangeForAnyNumbers) {
  for (const std::uint32_t job : {0U, 1U, 0x7fffffffU, 0xffffffffU})
    for (const std::uint32_t step : {0U, 77U, 0xfffffffdU, no_step})
      for (const auto port : ports({"c", job, step}, {60'001, 60'013})) {
        EXPECT_GE(port, 60'001);
        EXPECT_LE(port, 60'013);
      }
}

TEST(Ports, NeedARange) {
  EXPECT_FALSE(ports_of({"c", 1}, {0, 10}));
  const auto backwards = ports_of({"c", 1}, {20, 10});
  ASSERT_FALSE(backwards);
  EXPECT_THAT(backwards.error().text(), testing::HasSubstr("20-10 is not a range"));
}

TEST(JobIdentity, IsShownAsPeopleKnowIt) {
  EXPECT_EQ(JobIdentity({"c", 12}).text(), "job 12");
  EXPECT_EQ(JobIdentity({"c", 12, 0, 3}).text(), "job 12 step 0, restart 3");
}

}  // namespace
}  // namespace nccl_check::rendezvous
