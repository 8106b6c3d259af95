#include "engine/nccl/ceilings.hpp"

#include <gtest/gtest.h>

namespace nccl_check::engine::nccl {
namespace {

Readings h200(const std::string& remote) {
  Readings out;
  out.name = "NVIDIA H200";
  out.links.assign(18, NvLink{true, 26.562, remote});
  out.most_pcie_generation = 5;
  out.most_pcie_width = 16;
  out.memory_mhz = 3201;
  out.memory_bits = 6144;
  return out;
}

TEST(Ceilings, MemoryIsClockTimesWidthTwice) {
  const auto ceiling = memory_ceiling(h200(""));
  EXPECT_NEAR(ceiling.rate, 4916.7, 0.1);
  EXPECT_EQ(ceiling.text, "6144 bits at 2 x 3201 MHz");
  EXPECT_EQ(memory_ceiling({}).rate, 0);
}

TEST(Ceilings, ThroughASwitchAllLinksCount) {
  const auto gpu = h200("0000:07:00.0");
  const auto ceiling =
      peer_ceiling(gpu, "0000:1b:00.0", gpu, "0000:3b:00.0", {"0000:1b:00.0", "0000:3b:00.0"});
  EXPECT_EQ(ceiling.rate, 450);
  EXPECT_EQ(ceiling.text, "18 NVLinks at 25.0 GB/s");
}

TEST(Ceilings, DirectLinksCountOnlyToThePartner) {
  auto a = h200("0000:3b:00.0");
  for (std::size_t i = 0; i < 12; ++i) a.links[i].remote = "0000:5d:00.0";
  const auto b = h200("0000:1b:00.0");
  const std::vector<std::string> all{"0000:1b:00.0", "0000:3b:00.0", "0000:5d:00.0"};
  EXPECT_EQ(peer_ceiling(a, "0000:1b:00.0", b, "0000:3b:00.0", all).rate, 150);
}

TEST(Ceilings, DownLinksDoNotCountAndWithoutLinksThereIsPcie) {
  auto gpu = h200("");
  gpu.links[0].up = false;
  EXPECT_EQ(collective_ceiling({h200(""), gpu}).rate, 425);
  gpu.links.clear();
  const auto ceiling = peer_ceiling(gpu, "a", gpu, "b", {});
  EXPECT_NEAR(ceiling.rate, 57.6, 0.1);
  EXPECT_EQ(ceiling.text, "PCIe 5.0 x16");
}

TEST(Ceilings, AnUnknownModelsLinksAreAsNvmlSays) {
  auto gpu = h200("");
  gpu.name = "NVIDIA X900";
  EXPECT_NEAR(collective_ceiling({gpu}).rate, 18 * 26.562, 0.01);
}

TEST(Ceilings, ChipToChipBeforePcie) {
  auto gpu = h200("");
  gpu.c2c_links = 10;
  gpu.c2c_rate = 44.712;
  EXPECT_NEAR(host_ceiling(gpu).rate, 447.1, 0.1);
}

TEST(Ceilings, PcieGenerations) {
  EXPECT_NEAR(pcie_rate(3, 16), 14.4, 0.1);
  EXPECT_NEAR(pcie_rate(4, 16), 28.8, 0.1);
  EXPECT_NEAR(pcie_rate(5, 8), 28.8, 0.1);
  EXPECT_EQ(pcie_rate(0, 16), 0);
  EXPECT_EQ(pcie_rate(9, 16), 0);
  EXPECT_EQ(pcie_rate(5, 0), 0);
}

}  // namespace
}  // namespace nccl_check::engine::nccl
