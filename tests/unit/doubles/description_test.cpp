#include "tests/doubles/description/description.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/doubles/support.hpp"

namespace nccl_check::doubles {
namespace {

Parsed parsed(const std::string& text, const std::string& host = "n1") {
  std::istringstream in(text);
  return parse(in, host);
}

TEST(Description, HostsDifferBySection) {
  const std::string text = "gpus = 4\n# all\n[host n2]\ngpus = 2\nmemory = 64 MiB\n[host x*]\nmodel = B200\n";
  EXPECT_EQ(parsed(text, "n1").description.host.gpus, 4);
  EXPECT_EQ(parsed(text, "n2").description.host.gpus, 2);
  EXPECT_EQ(parsed(text, "n2").description.host.memory, 64U << 20U);
  EXPECT_EQ(parsed(text, "x9").description.host.model, "B200");
}

TEST(Description, FaultsBelongToHosts) {
  const std::string text =
      "[fault slow_nic]\nhost = n2\ngpu = 3\nfactor = 0.25\n[fault hang]\nstage = collective\n";
  EXPECT_EQ(parsed(text, "n1").description.faults.size(), 1U);
  const auto n2 = parsed(text, "n2").description;
  ASSERT_EQ(n2.faults.size(), 2U);
  EXPECT_EQ(n2.faults[0].gpu, 3);
  EXPECT_EQ(n2.faults[0].factor, 0.25);
}

TEST(Description, WhatCannotBeUsedIsNamedWithItsLine) {
  EXPECT_NE(parsed("gpus = 4\ngpu = 3\n").error.value_or("").find("line 2"), std::string::npos);
  for (const char* text : {"gpus = many\n", "gpus = 17\n", "gpus\n", "[fault nonsense]\n", "[fault hang]\n",
                           "[fault hang]\nstage = nowhere\n", "[host]\n", "[host n2]\nmodel =\n",
                           "network = Carrier\n", "memory = 3 XB\n", "[fault slow_link]\nfactor = 0\n"}) {
    EXPECT_TRUE(parsed(text).error) << text;
  }
}

TEST(Description, EveryCallFailsWhereItCannotBeUsed) {
  testing::in_child("no_such_key = 1\n", [] {
    int number = 0;
    ncclUniqueId id{};
    EXPECT_EQ(CUDA(cuInit)(0), CUDA_ERROR_OPERATING_SYSTEM);
    EXPECT_EQ(CUDA(cuDriverGetVersion)(&number), CUDA_ERROR_OPERATING_SYSTEM);
    EXPECT_EQ(NCCL(ncclGetVersion)(&number), ncclSystemError);
    EXPECT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSystemError);
    EXPECT_EQ(testing::symbol<int(unsigned)>(testing::nvml(), "nvmlInitWithFlags")(0), 17);
  });
}

}  // namespace
}  // namespace nccl_check::doubles
