// Machines of the field: the right answer for each, and its trap.
#include <gmock/gmock.h>

#include "planning.hpp"

namespace nccl_check::environment {
namespace {

using namespace fixtures;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Machines, AzureNdH100V5) {
  const auto made = azure_nd_h100();
  const auto facts = facts_of(*made);
  ASSERT_THAT(*facts.gpus, SizeIs(8));
  EXPECT_EQ((*facts.gpus)[3].pci, "0008:00:00.0");
  // The tree says NUMA and no more; which NIC is whose stands in the site's topology file alone.
  EXPECT_EQ((*facts.gpus)[0].nearest.size(), 4U);
  EXPECT_EQ((*facts.gpus)[0].nearest[0].distance.closeness, node::Closeness::node);
  Rule rule;
  rule.set["NCCL_TOPO_FILE"] = "/opt/microsoft/ndv5-topo.xml";
  const auto plan = plan_of(*made, {}, {rule});
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"),
            "=mlx5_ib0,mlx5_ib1,mlx5_ib2,mlx5_ib3,mlx5_ib4,mlx5_ib5,mlx5_ib6,mlx5_ib7");
  EXPECT_EQ(value(plan, "NCCL_IB_MERGE_VFS"), "0");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(value(plan, "NCCL_TOPO_FILE"), "/opt/microsoft/ndv5-topo.xml");
}

TEST(Machines, AwsP4dHasNoVerbsHca) {
  const auto made = aws_p4d();
  const auto facts = facts_of(*made);
  EXPECT_EQ(facts.fabric, node::Fabric::efa);
  EXPECT_THAT(nearest(facts), Contains("0000:10:1c.0: rdmap16s27"));
  EXPECT_THAT(nearest(facts), Contains("0000:10:1d.0: rdmap16s27")) << "two GPUs share a NIC";
  EXPECT_EQ((*facts.gpus)[0].function.most.speed, 32.0);
  EXPECT_EQ((*facts.rdma)[0].function.most.speed, 8.0) << "also without ' PCIe'";
  Situation two;
  two.nodes = 2;
  const auto plan = plan_of(*made, two);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "-");
  EXPECT_THAT(why_not(plan, "NCCL_IB_HCA"), HasSubstr("EFA"));
  EXPECT_EQ(value(plan, "NCCL_NET_PLUGIN"), "ofi");
  EXPECT_EQ(value(plan, "NCCL_NET"), "AWS Libfabric");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ens32");
  EXPECT_EQ(value(plan, "FI_EFA_USE_HUGE_PAGE"), "0");
}

TEST(Machines, OciFrontEndPortsOfTheSameRateStayOut) {
  const auto made = oci_h100_roce();
  EXPECT_THAT(nearest(facts_of(*made)),
              ElementsAre("0000:0f:00.0: mlx5_0 mlx5_1", "0000:2d:00.0: mlx5_3 mlx5_4",
                          "0000:44:00.0: mlx5_5 mlx5_6", "0000:5b:00.0: mlx5_7 mlx5_8",
                          "0000:89:00.0: mlx5_9 mlx5_10", "0000:a8:00.0: mlx5_12 mlx5_13",
                          "0000:c0:00.0: mlx5_14 mlx5_15", "0000:d8:00.0: mlx5_16 mlx5_17"));
  const auto plan = plan_of(*made);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"),
            "=mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_12,mlx5_13,mlx5_14,"
            "mlx5_15,"
            "mlx5_16,mlx5_17");
  EXPECT_THAT(why_not(plan, "mlx5_11"), HasSubstr("PCIe switch"));
  EXPECT_EQ(value(plan, "NCCL_IB_GID_INDEX"), "-");
  Situation old;
  old.nccl = Version{2, 20, 5};
  EXPECT_EQ(value(plan_of(*made, old), "NCCL_IB_GID_INDEX"), "3");
}

TEST(Machines, HgxH800) {
  const auto plan = plan_of(*hgx_h800());
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ens1f0") << "InfiniBand has no addresses here";
  EXPECT_EQ(why_not(plan, "ens1f1"), "no carrier");
}

TEST(Machines, JuwelsBooster) {
  const auto made = juwels_booster();
  const auto facts = facts_of(*made);
  EXPECT_THAT(nearest(facts), ElementsAre("0000:03:00.0: mlx5_0", "0000:44:00.0: mlx5_1",
                                          "0000:84:00.0: mlx5_2", "0000:c4:00.0: mlx5_3"))
      << "and the BMC's VGA is no GPU";
  const auto plan = plan_of(*made);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx5_0,mlx5_1,mlx5_2,mlx5_3");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ib0");
  EXPECT_THAT(why_not(plan, "enp225s0f0"), HasSubstr("1 Gbit/s"));
}

TEST(Machines, ElCapitanIsForRccl) {
  const auto made = elcap_mi300a();
  const auto facts = facts_of(*made);
  EXPECT_THAT(nearest(facts), ElementsAre("0000:02:00.0: hsi0", "0001:02:00.0: hsi1", "0002:02:00.0: hsi2",
                                          "0003:02:00.0: hsi3"));
  const auto plan = plan_of(*made);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("RCCL")));
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=hsi0,hsi1,hsi2,hsi3");
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "-");
  EXPECT_THAT(why_not(plan, "enp129s0"), HasSubstr("Slingshot"));
  EXPECT_THAT(why_not(plan, "NCCL_NET_PLUGIN"), HasSubstr("aws-ofi-nccl"));
}

TEST(Machines, Gh200WithoutItsNetworkIsUnknownNotGuessed) {
  const auto made = gh200_without_net();
  const auto facts = facts_of(*made);
  ASSERT_THAT(*facts.gpus, SizeIs(4));
  EXPECT_EQ((*facts.gpus)[0].pci, "0009:01:00.0");
  EXPECT_EQ((*facts.gpus)[3].function.numa, 3);
  EXPECT_THAT((*facts.gpus)[0].nearest, IsEmpty());
  const auto plan = plan_of(*made);
  EXPECT_THAT(plan.decisions, IsEmpty());
  EXPECT_THAT(plan.notes, Contains(HasSubstr("ip -br addr")));
  EXPECT_THAT(why_not(plan, "NCCL_IB_HCA"), HasSubstr("not known"));
}

TEST(Machines, OliviaGh200) {
  const auto made = olivia_gh200();
  Situation two;
  two.nodes = 2;
  const auto plan = plan_of(*made, two);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=hsn0,hsn1,hsn2,hsn3");
  EXPECT_EQ(value(plan, "NCCL_NET"), "AWS Libfabric");
  EXPECT_EQ(value(plan, "LD_LIBRARY_PATH"), "/opt/aws-ofi-nccl/lib");
  EXPECT_EQ(value(plan, "FI_CXI_DEFAULT_CQ_SIZE"), "131072");
  EXPECT_EQ(value(plan, "NCCL_LL128_C2C"), "0") << "wrong data otherwise";
  EXPECT_EQ(value(plan, "FI_CXI_RDZV_PROTO"), "-");
  Situation one;
  one.nodes = 1;
  one.nccl = Version{2, 26, 2};
  const auto alone = plan_of(*made, one);
  EXPECT_EQ(value(alone, "NCCL_NET"), "-");
  EXPECT_THAT(why_not(alone, "NCCL_NET"), HasSubstr("VNI"));
  EXPECT_EQ(value(alone, "NCCL_LL128_C2C"), "-");
}

TEST(Machines, HgxH100WithRailsAndABond) {
  const auto made = hgx_h100_bond0();
  const auto facts = facts_of(*made);
  EXPECT_THAT(nearest(facts),
              ElementsAre("0000:1a:00.0: mlx5_0", "0000:2a:00.0: mlx5_1", "0000:3c:00.0: mlx5_2",
                          "0000:5d:00.0: mlx5_5", "0000:9c:00.0: mlx5_6", "0000:ab:00.0: mlx5_7",
                          "0000:bc:00.0: mlx5_8", "0000:db:00.0: mlx5_11"));
  const auto plan = plan_of(*made);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx5_0,mlx5_1,mlx5_2,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_11");
  EXPECT_THAT(why_not(plan, "mlx5_10"), HasSubstr("DOWN"));
  EXPECT_THAT(why_not(plan, "mlx5_3"), HasSubstr("bond0"));
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=bond0");
  EXPECT_THAT(why_not(plan, "enp0s20f0u5u2c2"), HasSubstr("BMC"));
  EXPECT_THAT(why_not(plan, "enp25s0np0"), HasSubstr("/31"));
}

TEST(Machines, RtxWithEveryPortDown) {
  const auto made = rtx6000_ports_down();
  const auto facts = facts_of(*made);
  EXPECT_EQ((*facts.gpus)[0].function.most.speed, 16.0) << "2.5 is idle power saving";
  EXPECT_EQ((*facts.gpus)[0].function.now.speed, 2.5);
  EXPECT_THAT(nearest(facts), ElementsAre("0000:01:00.0: mlx5_0 mlx5_1", "0000:41:00.0: mlx5_0 mlx5_1",
                                          "0000:c1:00.0: mlx5_2 mlx5_3", "0000:e1:00.0: mlx5_2 mlx5_3"));
  const auto plan = plan_of(*made);
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "-");
  EXPECT_EQ(why_not(plan, "mlx5_3"), "port 1 is DOWN");
  EXPECT_THAT(plan.notes, Contains(HasSubstr("no RDMA port can be used")));
  // Two 10G ports in networks of their own: nothing shows which one leads to the others.
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "-");
  EXPECT_THAT(why_not(plan, "NCCL_SOCKET_IFNAME"), HasSubstr("nothing is clearly right"));
  Situation proved;
  proved.proved = {"enp130s0f1"};
  EXPECT_EQ(value(plan_of(*made, proved), "NCCL_SOCKET_IFNAME"), "=enp130s0f1");
}

TEST(Machines, Rtx4090WithCalicoAndDocker) {
  const auto made = rtx4090_calico();
  const auto facts = facts_of(*made);
  EXPECT_EQ((*facts.gpus)[1].nearest.at(0).distance.closeness, node::Closeness::phb)
      << "26:00.0 is the nearest";
  EXPECT_EQ((*facts.gpus)[0].nearest.at(0).distance.closeness, node::Closeness::sys);
  const auto plan = plan_of(*made);
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=enp34s0f0");
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "-");
  EXPECT_THAT(why_not(plan, "tunl0"), HasSubstr("tunnel"));
  EXPECT_THAT(why_not(plan, "cali00000000003"), HasSubstr("veth"));
}

TEST(Machines, WithoutGpusNothingApplies) {
  const auto made = gpuless_sysfs();
  const auto facts = facts_of(*made);
  EXPECT_THAT(*facts.gpus, IsEmpty()) << "a BMC's VGA and a coprocessor are none";
  EXPECT_FALSE((*facts.rdma)[0].function.most.speed) << "no such file: unknown";
  const auto plan = plan_of(*made);
  EXPECT_THAT(plan.decisions, IsEmpty());
  EXPECT_THAT(plan.notes, Contains(HasSubstr("do not apply")));
  Situation asked;
  asked.without_gpus = true;
  const auto network = plan_of(*made, asked);
  EXPECT_EQ(value(network, "NCCL_IB_HCA"), "=mlx4_0");
  EXPECT_EQ(value(network, "NCCL_SOCKET_IFNAME"), "=ib0") << "by the port's rate: its speed file is empty";
  for (const char* out : {"scif0", "mic0", "br0", "eth0.1015", "eth1"})
    EXPECT_NE(why_not(network, out), "") << out;
  EXPECT_THAT(why_not(network, "eth0"), HasSubstr("1 Gbit/s"));
}

TEST(Machines, CrusoesVirtualMachine) {
  const auto made = crusoe_h100_vm();
  Rule rule;
  rule.match.gpu = "h100";
  rule.set["NCCL_TOPO_FILE"] = "/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml";
  const auto plan = plan_of(*made, {}, {rule});
  EXPECT_EQ(value(plan, "NCCL_IB_HCA"), "=mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8")
      << "^mlx5_0:1 by hand";
  EXPECT_EQ(value(plan, "NCCL_IB_MERGE_VFS"), "0");
  EXPECT_EQ(value(plan, "NCCL_SOCKET_IFNAME"), "=ens3");
  EXPECT_NE(value(plan, "NCCL_TOPO_FILE"), "-");
}

}  // namespace
}  // namespace nccl_check::environment
