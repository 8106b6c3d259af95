// What went wrong out there (the report is named at each), as the node would have shown it.
#include <gmock/gmock.h>

#include "planning.hpp"

namespace nccl_check::environment {
namespace {

using namespace fixtures;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

struct Small : MadeNode {
  Small() {
    gpu("pci0000:10/0000:10:01.0/0000:11:00.0", 0x2330, 0);
    interface({"lo", "", 772, true, true, 0, {"127.0.0.1/8"}});
  }
  std::string ethernet(const std::string& name, long speed, const std::vector<std::string>& addresses,
                       bool up = true, bool carrier = true) {
    const auto path = pci(fmt_path(), {0x8086, 0x1563, 0x020000, 0, "ixgbe"});
    interface({name, path, 1, up, carrier, speed, addresses});
    return path;
  }
  std::string fmt_path() {
    const auto n = std::to_string(next_++);
    return "pci0000:30/0000:30:0" + n + ".0/0000:3" + n + ":00.0";
  }
  int next_ = 1;
};

TEST(Situations, VethsAndBridges) {  // nccl#913, pytorch#68893
  Small node;
  node.interface({"docker0", "", 1, true, true, 0, {"172.17.0.1/16"}, "bridge"});
  node.interface({"br-1f2e", "", 1, true, true, 0, {"172.18.0.1/16"}, "bridge"});
  node.interface({"veth1", "", 1, true, true, 10000, {"fe80::1/64"}, "veth"});
  node.ethernet("ens5", 10000, {"10.0.0.4/24"});
  node.write_links();
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ens5");
  for (const char* out : {"lo", "docker0", "br-1f2e", "veth1"}) EXPECT_NE(why_not(plan, out), "") << out;
}

TEST(Situations, KindsWithoutRtnetlinkAreFoundInSysfs) {
  Small node;
  node.interface({"veth1", "", 1, true, true, 10000, {}, "veth"});
  node.interface({"plain", "", 1, true, true, 10000, {}, "bridge"});
  node.ethernet("ens5", 10000, {"10.0.0.4/24"});
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ens5");
  EXPECT_THAT(plan.find("NCCL_SOCKET_IFNAME")->why, HasSubstr("addresses are not known"));
  EXPECT_THAT(why_not(plan, "veth1"), HasSubstr("veth"));
}

TEST(Situations, Mlx5_1IsNotMlx5_11) {  // nccl PR#236
  Small node;
  for (int i = 0; i < 12; ++i) {
    const auto nic =
        node.nic("pci0000:40/0000:40:" + std::string(i < 10 ? "0" : "1") + std::to_string(i % 10) + ".0", 0,
                 0x1021, 0x020700);
    node.hca({"mlx5_" + std::to_string(i), nic, i == 1 ? "4: ACTIVE" : "1: DOWN"});
  }
  node.write_links();
  EXPECT_EQ(value(plan_of(node), "NCCL_IB_HCA"), "=mlx5_1");
}

TEST(Situations, APortIsNamedWhereThereAreSeveral) {
  Small node;
  const auto nic = node.nic("pci0000:40/0000:40:01.0", 0, 0x1003, 0x020700);
  node.hca({"mlx4_0", nic, "1: DOWN", "10 Gb/sec (4X)", "InfiniBand", {}, 1});
  node.hca({"mlx4_0", nic, "4: ACTIVE", "56 Gb/sec (4X FDR)", "InfiniBand", {}, 2});
  node.write_links();
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx4_0:2");
  EXPECT_EQ(why_not(plan, "mlx4_0:1"), "port 1 is DOWN");
}

TEST(Situations, TwoNodesOfAJobNameTheirInterfacesDifferently) {  // nccl-tests#219, nccl#286
  Small one, two;
  one.ethernet("enp4s0", 10000, {"10.0.0.4/24"});
  two.ethernet("enp6s0", 10000, {"10.0.0.5/24"});
  one.write_links();
  two.write_links();
  EXPECT_EQ(value(plan_of(one), "NCCL_SOCKET_IFNAME"), "=enp4s0");
  EXPECT_EQ(value(plan_of(two), "NCCL_SOCKET_IFNAME"), "=enp6s0");
}

TEST(Situations, UpWithoutCarrierIsNotTaken) {  // nccl#1798
  Small node;
  node.ethernet("eth0", 0, {"10.0.0.4/24"}, true, false);
  node.ethernet("eth1", 1000, {"10.0.1.4/24"});
  node.ethernet("eth2", 0, {}, false, false);
  node.write_links();
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=eth1");
  EXPECT_EQ(why_not(plan, "eth0"), "no carrier");
  EXPECT_EQ(why_not(plan, "eth2"), "down");
}

TEST(Situations, APortThatIsDownOrSlowerThanItsFellows) {  // nccl#489, #307
  Small node;
  const char* states[] = {"4: ACTIVE", "1: DOWN", "4: ACTIVE"};
  const char* rates[] = {"200 Gb/sec (4X HDR)", "200 Gb/sec (4X HDR)", "100 Gb/sec (2X HDR)"};
  for (int i = 0; i < 3; ++i)
    node.hca({"mlx5_" + std::to_string(i),
              node.nic("pci0000:40/0000:40:0" + std::to_string(i) + ".0", 0, 0x101b, 0x020700), states[i],
              rates[i]});
  node.write_links();
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx5_0");
  EXPECT_EQ(why_not(plan, "mlx5_1"), "port 1 is DOWN");
  EXPECT_EQ(why_not(plan, "mlx5_2"), "100 Gbit/s, others have 200 Gbit/s");
}

TEST(Situations, OnlyLinkLocalAddresses) {
  Small node;
  node.ethernet("eth0", 100000, {"fe80::2/64", "169.254.7.1/16"});
  node.ethernet("eth1", 1000, {"fd00::4/64"});
  node.write_links();
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=eth1");
  EXPECT_EQ(why_not(plan, "eth0"), "link-local addresses only");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_FAMILY"), "-") << "there is one family only";
}

TEST(Situations, OneFamilyOnAllNodes) {
  Small node;
  node.ethernet("eth0", 10000, {"10.0.0.4/24", "fd00::4/64"});
  node.write_links();
  EXPECT_EQ(value(plan_of(node), "NCCL_SOCKET_FAMILY"), "AF_INET");
  Situation v6;
  v6.family = node::Address::Family::v6;
  EXPECT_EQ(value(plan_of(node, v6), "NCCL_SOCKET_FAMILY"), "AF_INET6");
}

TEST(Situations, WhatTheRendezvousProvedDecides) {
  Small node;
  node.ethernet("eth0", 100000, {"10.0.0.4/24"});
  node.ethernet("eth1", 10000, {"10.1.0.4/24"});
  node.write_links();
  Situation situation;
  situation.proved = {"eth1"};
  const auto plan = plan_of(node, situation);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=eth1");
  EXPECT_THAT(why_not(plan, "eth0"), HasSubstr("does not reach"));
}

TEST(Situations, ASlowNicNearAGpuDoesNotDriveOutTheFastOnes) {
  Small node;
  node.hca({"mlx5_0", node.nic("pci0000:10/0000:10:01.0/0000:11:00.1", 0), "4: ACTIVE", "25 Gb/sec (1X EDR)",
            "Ethernet"});
  node.hca({"mlx5_1", node.nic("pci0000:40/0000:40:01.0/0000:41:00.0", 0), "4: ACTIVE", "400 Gb/sec (4X NDR)",
            "Ethernet"});
  node.write_links();
  EXPECT_EQ(value(plan_of(node), "NCCL_IB_HCA"), "=mlx5_1");
}

TEST(Situations, RoceBesideInfiniBandStaysOut) {
  Small node;
  node.hca(
      {"mlx5_0", node.nic("pci0000:40/0000:40:01.0", 0), "4: ACTIVE", "200 Gb/sec (4X HDR)", "InfiniBand"});
  node.hca(
      {"mlx5_1", node.nic("pci0000:40/0000:40:02.0", 0), "4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet"});
  node.write_links();
  EXPECT_EQ(value(plan_of(node), "NCCL_IB_HCA"), "=mlx5_0");
}

TEST(Situations, ABondOfAllThereIsIsTaken) {
  Small node;
  node.interface({"bond0", "", 1, true, true, 400000, {"10.0.0.4/24"}, "bond"});
  for (int i : {0, 1}) {
    const auto nic = node.nic("pci0000:40/0000:40:01.0/0000:41:00." + std::to_string(i), 0);
    node.interface({"ens1f" + std::to_string(i), nic, 1, true, true, 200000, {}, "", "bond0"});
    if (i == 0) node.hca({"mlx5_bond_0", nic, "4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet"});
  }
  node.write_links();
  const auto plan = plan_of(node);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx5_bond_0");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=bond0");
}

TEST(Situations, GidsAtDifferentPlacesHaveNoOneIndex) {
  Small node;
  for (int i : {0, 1})
    node.hca({"mlx5_" + std::to_string(i), node.nic("pci0000:40/0000:40:0" + std::to_string(i) + ".0", 0),
              "4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet",
              i == 0 ? std::vector<std::string>{"0000:0000:0000:0000:0000:ffff:0a00:0001|RoCE v2|"}
                     : std::vector<std::string>{"fe80:0000:0000:0000:0000:0000:0000:0001|RoCE v2|",
                                                "0000:0000:0000:0000:0000:ffff:0a00:0002|RoCE v2|"}});
  node.write_links();
  Situation old;
  old.nccl = Version{2, 18, 1};
  const auto plan = plan_of(node, old);
  EXPECT_EQ(value(plan, "NCCL_IB_GID_INDEX"), "-");
  EXPECT_THAT(why_not(plan, "NCCL_IB_GID_INDEX"), HasSubstr("different places"));
}

TEST(Situations, LockedMemoryIsTheJobsOwnLimit) {  // ai4d-iasc/trixie#81, nccl-tests#206
  const auto made = juwels_booster();
  made->write("/proc/self/limits",
              "Max locked memory         65536                65536                bytes\n");
  EXPECT_THAT(plan_of(*made).notes, Contains(HasSubstr("LimitMEMLOCK")));
}

TEST(Situations, WithoutPeermemAndDmaBuf) {
  const auto made = juwels_booster();
  made->write("/proc/modules", "ib_core 1 0 - Live 0x0\n");
  EXPECT_THAT(plan_of(*made).notes, testing::Not(Contains(HasSubstr("peermem"))));
  made->write("/proc/sys/kernel/osrelease", "4.18.0-553.el8_10.x86_64\n");
  EXPECT_THAT(plan_of(*made).notes, Contains(HasSubstr("nvidia_peermem")));
}

}  // namespace
}  // namespace nccl_check::environment
