#include "engine/nccl/nccl_log.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>

namespace nccl_check::engine::nccl {
namespace {

constexpr const char* over_ib =
    "n1:100:100 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    "n1:100:120 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
    "n1:100:120 [0] NCCL INFO Initialized NET plugin IB\n"
    "n1:100:120 [0] NCCL INFO Using network IB\n"
    "n1:100:120 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
    "n1:100:120 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels\n";

TEST(NcclLog, InfiniBand) {
  const auto log = parse_nccl_log(over_ib);
  EXPECT_EQ(log.network, "IB mlx5_0:1, mlx5_3:1");
  EXPECT_EQ(log.channels, 24);
  EXPECT_TRUE(log.between_hosts);
  EXPECT_EQ(log.warning, "");
  EXPECT_EQ(network_remark(log, {8, 400, ""}), "");
}

TEST(NcclLog, SocketsThoughPortsAreActive) {
  const auto log = parse_nccl_log(
      "[2026-01-02 03:04:05] n1:1:2 [0] net_ib.cc:12 NCCL WARN NET/IB : No device found.\n"
      "n1:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.1.0.1<0>\n"
      "n1:1:2 [0] NCCL INFO Using network Socket\n");
  EXPECT_EQ(log.network, "Socket eth0, eth1");
  EXPECT_EQ(log.warning, "NET/IB : No device found.");
  EXPECT_EQ(network_remark(log, {8, 400, ""}), "NCCL used Socket though 8 InfiniBand ports are active");
  EXPECT_EQ(network_remark(log, {1, 50, ""}), "NCCL used Socket though 1 InfiniBand port is active");
  EXPECT_EQ(network_remark(log, {}), "");
}

TEST(NcclLog, APluginAndNothing) {
  EXPECT_EQ(parse_nccl_log("n1:1:2 [0] NCCL INFO Using network AWS Libfabric\n").network, "AWS Libfabric");
  EXPECT_EQ(parse_nccl_log("").network, "");
  EXPECT_EQ(parse_nccl_log("Using network IB\n coll channels\nNCCL INFO coll channels\n").network, "");
}

TEST(NcclLog, CapturesWhatIsWrittenToItsFile) {
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("NCCL_DEBUG_FILE");
  LogCapture log;
  EXPECT_EQ(log.text(), "");
  log.start();
  ASSERT_NE(::getenv("NCCL_DEBUG_FILE"), nullptr);
  const std::string path = ::getenv("NCCL_DEBUG_FILE");
  FILE* file = std::fopen(path.c_str(), "w");  // as NCCL does
  ASSERT_NE(file, nullptr);
  std::fputs(over_ib, file);
  std::fclose(file);
  EXPECT_EQ(log.text(), over_ib);
  LogCapture second;  // an environment that asks for a log of its own is left alone
  second.start();
  EXPECT_EQ(::getenv("NCCL_DEBUG_FILE"), path);
  EXPECT_EQ(second.text(), "");
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("NCCL_DEBUG_FILE");
  ::unsetenv("NCCL_DEBUG_SUBSYS");
}

}  // namespace
}  // namespace nccl_check::engine::nccl
