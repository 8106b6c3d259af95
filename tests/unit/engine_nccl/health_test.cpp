#include "engine/nccl/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nccl_check::engine::nccl {
namespace {

using testing::HasSubstr;
using verdict::Class;

Checked healthy(const std::string& name = "NVIDIA H200", std::uint32_t links = 18) {
  Checked out{"GPU 1 (0000:3b:00.0)", {}};
  out.readings.name = name;
  out.readings.ecc_errors = 0;
  out.readings.remap_pending = out.readings.remap_failed = false;
  out.readings.links.assign(links, NvLink{true, 26.562, ""});
  out.readings.pcie_width = out.readings.most_pcie_width = 16;
  out.readings.fabric_state = 3;
  return out;
}

std::string complaint(const std::vector<Checked>& gpus) {
  const auto found = judge_health(gpus);
  if (!found) return "";
  EXPECT_EQ(found->cls, Class::broken);
  EXPECT_EQ(found->error.where, "GPU 1 (0000:3b:00.0)");
  return found->error.what;
}

TEST(Health, AHealthyGpuAndAnUnknownOnePass) {
  EXPECT_EQ(complaint({healthy()}), "");
  EXPECT_EQ(complaint({Checked{"GPU 1 (0000:3b:00.0)", {}}}), "");
}

TEST(Health, NamesWhatIsBroken) {
  auto gpu = healthy();
  gpu.readings.ecc_errors = 3;
  EXPECT_THAT(complaint({gpu}), HasSubstr("3 uncorrected ECC errors"));
  gpu.readings.remap_pending = true;
  EXPECT_THAT(complaint({gpu}), HasSubstr("row remapping waits"));
  EXPECT_THAT(complaint({gpu}), HasSubstr("ECC"));  // both in one text
  gpu = healthy();
  gpu.readings.remap_failed = true;
  EXPECT_THAT(complaint({gpu}), HasSubstr("row remapping failed"));
  gpu = healthy();
  gpu.readings.pcie_width = 8;
  EXPECT_THAT(complaint({gpu}), HasSubstr("x8 of x16"));
  gpu = healthy();
  gpu.readings.fabric_state = 1;
  EXPECT_THAT(complaint({gpu}), HasSubstr("fabric manager"));
  gpu = healthy();
  gpu.readings.fabric_status = 999;
  EXPECT_THAT(complaint({gpu}), HasSubstr("fabric failed"));
}

TEST(Health, CountsLinksAgainstTheModel) {
  auto gpu = healthy();
  gpu.readings.links[4].up = gpu.readings.links[17].up = false;
  EXPECT_EQ(complaint({gpu}), "16 of 18 NVLinks are up (down: 4, 17)");
  EXPECT_EQ(complaint({healthy("NVIDIA H200", 17)}), "17 of 18 NVLinks are up");
  EXPECT_EQ(complaint({healthy("NVIDIA A100-SXM4-80GB", 12)}), "");
  EXPECT_EQ(nvlinks_of_model("NVIDIA H200 NVL"), 0U);
  EXPECT_EQ(nvlinks_of_model("NVIDIA H100 80GB HBM3"), 18U);
  EXPECT_EQ(nvlinks_of_model("NVIDIA GeForce RTX 4090"), 0U);
}

TEST(Health, CountsLinksOfOtherModelsAgainstTheBest) {
  auto worse = healthy("NVIDIA A100 80GB PCIe", 12);
  auto best = worse;
  best.where = "GPU 0 (0000:1b:00.0)";
  worse.readings.links[0].up = false;
  EXPECT_THAT(complaint({best, worse}), HasSubstr("11 of 12"));
  EXPECT_EQ(complaint({worse}), "");  // alone nothing is known
  auto other = healthy("NVIDIA H200", 18);
  EXPECT_EQ(complaint({other, worse}), "");
}

TEST(Health, ALoneGpuWithoutLinksIsAVirtualMachines) {
  auto gpu = healthy();
  for (auto& link : gpu.readings.links) link.up = false;
  EXPECT_EQ(complaint({gpu}), "");
  EXPECT_THAT(complaint({gpu, healthy()}), HasSubstr("0 of 18"));
}

TEST(Health, ThrottleReasons) {
  EXPECT_EQ(throttle_text(0), "");
  EXPECT_EQ(throttle_text(0x1), "");  // idle
  EXPECT_EQ(throttle_text(0x4), "");  // software power cap: ordinary
  EXPECT_EQ(throttle_text(0x88), "slowed down by power brake while measuring");
  EXPECT_EQ(throttle_text(0x48), "slowed down by heat while measuring");
  EXPECT_THAT(throttle_text(0x8), HasSubstr("hardware"));
}

}  // namespace
}  // namespace nccl_check::engine::nccl
