// What a node is, read from trees made for it; and recorded, and read again.
#include "node/facts.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "../../fixtures/made_node.hpp"
#include "node/record.hpp"

namespace nccl_check::node {
namespace {

namespace fs = std::filesystem;
using fixtures::MadeNode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Facts facts_of(const std::string& root) {
  Tree tree(root);
  return read_facts(tree);
}
const Interface& interface(const Facts& facts, const std::string& name) {
  for (const auto& i : *facts.interfaces)
    if (i.name == name) return i;
  throw std::runtime_error(name);
}
std::vector<std::string> names(const std::vector<Near>& nearest) {
  std::vector<std::string> out;
  for (const auto& near : nearest) out.push_back(near.name);
  return out;
}

// Two GPUs, each with a NIC on its switch, a third NIC elsewhere, and the interfaces of a container host.
struct Ordinary {
  MadeNode node;
  Ordinary() {
    const std::string one = "pci0000:40/0000:40:01.0/0000:41:00.0/",
                      two = "pci0000:80/0000:80:01.0/0000:81:00.0/";
    node.gpu(one + "0000:42:00.0/0000:43:00.0", 0x2330, 0, "NVIDIA H100 80GB HBM3");
    node.gpu(two + "0000:82:00.0/0000:83:00.0", 0x2330, 1);
    node.hca({"mlx5_0", node.nic(one + "0000:42:01.0/0000:44:00.0", 0, 0x1021, 0x020700)});
    node.hca({"mlx5_10", node.nic(two + "0000:82:01.0/0000:84:00.0", 1, 0x1021, 0x020700)});
    const auto slow = node.nic("pci0000:00/0000:00:02.0/0000:05:00.0", 0, 0x1017);
    node.hca({"mlx5_2",
              slow,
              "1: DOWN",
              "40 Gb/sec (4X QDR)",
              "Ethernet",
              {"fe80:0000:0000:0000:bace:f6ff:fe01:0203|IB/RoCE v1|ens5",
               "0000:0000:0000:0000:0000:ffff:0a01:0203|RoCE v2|ens5"}});
    node.interface({"lo", "", 772, true, true, 0, {}});
    node.interface({"ens5", slow, 1, true, true, 25000, {"10.1.2.3/24", "fe80::bace:f6ff:fe01:203/64"}});
    node.interface({"bond0", "", 1, true, true, 0, {"192.168.7.9/24"}, "bond"});
    node.pci("pci0000:00/0000:00:14.0", {0x8086, 1, 0x0c0330, 0, "xhci_hcd"});
    node.interface({"enx0", "pci0000:00/0000:00:14.0/usb1/1-5/1-5:1.0", 1, true, true, 0, {}});
    node.interface({"eno1",
                    node.pci("pci0000:00/0000:00:03.0", {0x8086, 0x1563, 0x020000, 0, "ixgbe", "", "", 0}),
                    1,
                    true,
                    true,
                    10000,
                    {},
                    "",
                    "bond0",
                    0});
    node.interface({"veth12", "", 1, true, true, 10000, {}, "veth"});
    node.interface({"docker0", "", 1, true, false, 0, {"172.17.0.1/16"}, "bridge"});
    node.interface({"bond0.7", "", 1, true, true, 0, {}, "vlan"});
    node.interface({"tap3", "", 1, true, true, 10, {}, "tun"});
    node.interface({"mv0", "", 1, true, true, 0, {}, "macvlan"});
    node.write("/proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n");
    node.write("/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9", "");
    node.link("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9");
    node.write("/nccl-check/shm_bytes", "67108864\n");
    node.write_links();
  }
};

TEST(Facts, InterfacesAreWhatTheKernelSaysNotWhatTheyAreCalled) {
  const Ordinary made;
  const auto facts = facts_of(made.node.root());
  EXPECT_EQ(interface(facts, "lo").kind, Kind::loopback);
  EXPECT_EQ(interface(facts, "ens5").kind, Kind::ethernet);
  EXPECT_EQ(interface(facts, "ens5").driver, "mlx5_core");
  EXPECT_EQ(interface(facts, "ens5").function.numa, 0);
  EXPECT_EQ(interface(facts, "ens5").mtu, 1500U);
  EXPECT_EQ(interface(facts, "ens5").addresses[1].scope, Scope::link);
  EXPECT_THAT(interface(facts, "ens5").domains, ElementsAre("mlx5_2"));
  EXPECT_EQ(interface(facts, "bond0").kind, Kind::bond);
  EXPECT_TRUE(interface(facts, "bond0").hardware);
  EXPECT_EQ(interface(facts, "eno1").master, "bond0");
  EXPECT_TRUE(interface(facts, "enx0").usb);
  EXPECT_EQ(interface(facts, "enx0").pci, "0000:00:14.0");
  EXPECT_EQ(interface(facts, "veth12").kind, Kind::veth);
  EXPECT_EQ(interface(facts, "docker0").kind, Kind::bridge);
  EXPECT_FALSE(interface(facts, "docker0").carrier);
  EXPECT_EQ(interface(facts, "bond0.7").kind, Kind::vlan);
  EXPECT_EQ(interface(facts, "tap3").kind, Kind::tunnel);
  EXPECT_EQ(interface(facts, "mv0").kind, Kind::virtual_device);
  EXPECT_EQ(interface(facts, "mv0").type, "macvlan");
}

TEST(Facts, EachSaysWhereItWasReadAndWhatIsNotThereIsUnknown) {
  const Ordinary made;
  const auto facts = facts_of(made.node.root());
  const auto& ens5 = interface(facts, "ens5");
  EXPECT_EQ(ens5.origin.from("speed"), "/sys/class/net/ens5/speed");
  EXPECT_FALSE(ens5.origin.unknown("speed"));
  EXPECT_TRUE(interface(facts, "enx0").origin.unknown("speed"));
  EXPECT_TRUE(interface(facts, "veth12").origin.unknown("speed")) << "a virtual device's speed is a fiction";
  EXPECT_FALSE(interface(facts, "eno1").function.now.speed) << "no such file: unknown, not 0";
  const auto json = facts_json(facts);
  EXPECT_THAT(json, HasSubstr("\"speed\": \"/sys/class/net/ens5/speed\""));
  EXPECT_THAT(json, HasSubstr("\"speed_bit_s\": \"unknown\""));
}

TEST(Facts, RdmaDevicesHaveTheirPortsAndGids) {
  const Ordinary made;
  const auto facts = facts_of(made.node.root());
  ASSERT_THAT(*facts.rdma, SizeIs(3));
  EXPECT_EQ((*facts.rdma)[1].name, "mlx5_2") << "2 before 10";
  const auto& port = (*facts.rdma)[1].ports.at(0);
  EXPECT_EQ(port.active, false);
  EXPECT_DOUBLE_EQ(port.rate, 40e9);
  EXPECT_EQ(port.layer, LinkLayer::ethernet);
  EXPECT_EQ(port.netdev, "ens5");
  ASSERT_THAT(port.gids, SizeIs(2));
  EXPECT_TRUE(port.gids[0].address.link_local());
  EXPECT_EQ(port.gids[1].type, "RoCE v2");
  EXPECT_TRUE(port.gids[1].ipv4());
  EXPECT_EQ(facts.fabric, Fabric::verbs);
}

TEST(Facts, TheNicOnAGpusOwnSwitchIsTheNearest) {
  const Ordinary made;
  const auto facts = facts_of(made.node.root());
  ASSERT_THAT(*facts.gpus, SizeIs(2));
  EXPECT_EQ((*facts.gpus)[0].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ((*facts.gpus)[0].origin.from("model"), "/proc/driver/nvidia/gpus/0000:43:00.0/information");
  EXPECT_EQ((*facts.gpus)[1].origin.from("model"), "/sys/bus/pci/devices/0000:83:00.0/device");
  EXPECT_THAT(names((*facts.gpus)[0].nearest), ElementsAre("mlx5_0"));
  EXPECT_THAT(names((*facts.gpus)[1].nearest), ElementsAre("mlx5_10"));
  EXPECT_EQ((*facts.gpus)[0].nearest[0].distance.closeness, Closeness::pix);
}

TEST(Facts, TheRestOfTheNode) {
  Ordinary made;
  made.node.write("/proc/self/limits",
                  "Max locked memory         65536                65536                bytes\n");
  const auto facts = facts_of(made.node.root());
  EXPECT_EQ(facts.system.limits.memlock, 65536U);
  EXPECT_EQ(facts.system.limits.huge_pages_free, 0U);
  EXPECT_EQ(facts.system.limits.shm, 67108864U);
  EXPECT_EQ(facts.system.modules.peermem, true);
  EXPECT_EQ(facts.system.modules.dma_buf, true);
  EXPECT_EQ(facts.system.nvidia_driver, "580.95.05");
  EXPECT_EQ(facts.system.nccl.version, "2.28.9");
  EXPECT_TRUE(facts.system.libfabric.path.empty());
}

TEST(Facts, AnEmptyTreeIsUnknownNotNone) {
  MadeNode node;
  fs::remove_all(node.root() + "/sys");
  fs::remove_all(node.root() + "/proc");
  const auto facts = facts_of(node.root());
  EXPECT_FALSE(facts.interfaces || facts.rdma || facts.gpus);
  EXPECT_EQ(facts.fabric, Fabric::unknown);
  EXPECT_THAT(facts.complaints, testing::Contains(HasSubstr("ip -br addr")));
  EXPECT_FALSE(facts.system.limits.memlock || facts.system.modules.peermem || facts.system.modules.dma_buf);
}

TEST(Facts, ALinkNeverLeadsOutOfTheTree) {
  MadeNode node;
  fs::create_symlink("/proc/sys/kernel/osrelease", node.root() + "/way");
  fs::create_symlink("../../../../../../etc/hostname", node.root() + "/up");
  fs::create_symlink("round", node.root() + "/round");
  Tree tree(node.root());
  EXPECT_EQ(tree.line("/way"), "6.1.0-26-amd64");
  EXPECT_FALSE(tree.text("/up"));
  EXPECT_FALSE(tree.text("/round"));
}

std::string all_text(const std::string& folder) {
  std::ostringstream out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.is_symlink()) out << std::ifstream(entry.path()).rdbuf();
  return out.str();
}

class Recorded : public testing::Test {
 protected:
  Recorded() : copy_(target_.root() + "/copy") {}
  MadeNode target_;
  std::string copy_;
};

TEST_F(Recorded, GivesTheSameFactsAgain) {
  const Ordinary made;
  const auto done = record(made.node.root(), copy_);
  ASSERT_TRUE(done) << done.error().text();
  const auto again = target_.root() + "/again";
  ASSERT_TRUE(record(copy_, again));
  EXPECT_EQ(facts_json(facts_of(copy_)), facts_json(facts_of(again)))
      << "nothing is lost in a recording, and its stand-ins become the same ones";
  auto before = facts_of(made.node.root()), after = facts_of(copy_);
  EXPECT_EQ(interface(after, "ens5").addresses[0].text(), "10.77.1.7");
  EXPECT_EQ(after.system.host, "node");
  // But for what was taken out, all is the same.
  for (auto* facts : {&before, &after}) {
    facts->system.host.clear();
    for (auto& i : *facts->interfaces)
      for (auto& a : i.addresses) a.bytes = {};
    for (auto& device : *facts->rdma)
      for (auto& port : device.ports)
        for (auto& gid : port.gids) gid.address = {};
  }
  EXPECT_EQ(facts_json(before), facts_json(after));
}

TEST_F(Recorded, HoldsNothingThatTellsWhoseItIs) {
  const Ordinary made;
  ASSERT_TRUE(record(made.node.root(), copy_));
  const auto text = all_text(copy_);
  for (const char* secret :
       {"gpu17", "10.1.2.3", "0a01:0203", "bace:f6ff", "b8:ce:f6", "192.168.7.9", "0a1b2c3d"})
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  EXPECT_THAT(text, HasSubstr("580.95.05"));
  EXPECT_FALSE(fs::exists(copy_ + "/sys/devices/virtual/net/lo/address"))
      << "what was not read is not copied";
}

TEST_F(Recorded, IsNeverWrittenOverSomethingElse) {
  const Ordinary made;
  const auto done = record(made.node.root(), target_.root());
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().text(), HasSubstr("is not empty"));
}

TEST_F(Recorded, TheLiveNodeToo) {
  const auto done = record("/", copy_);
  ASSERT_TRUE(done) << done.error().text();
  const auto live = facts_of("/"), again = facts_of(copy_);
  ASSERT_TRUE(again.interfaces);
  ASSERT_EQ(live.interfaces->size(), again.interfaces->size());
  for (std::size_t i = 0; i < live.interfaces->size(); ++i) {
    EXPECT_EQ((*live.interfaces)[i].name, (*again.interfaces)[i].name);
    EXPECT_EQ((*live.interfaces)[i].kind, (*again.interfaces)[i].kind);
    EXPECT_EQ((*live.interfaces)[i].carrier, (*again.interfaces)[i].carrier);
    EXPECT_EQ((*live.interfaces)[i].addresses.size(), (*again.interfaces)[i].addresses.size());
  }
  EXPECT_EQ(live.system.limits.memlock, again.system.limits.memlock);
}

TEST(Pci, Addresses) {
  EXPECT_EQ(pci_address("00000009:01:00.0"), "0009:01:00.0");
  EXPECT_EQ(pci_address("0000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(pci_address("10000:e1:00.0"), "10000:e1:00.0");
  EXPECT_EQ(pci_address("mlx5_0"), "");
  EXPECT_EQ(pci_behind("/sys/devices/pci0000:00/0000:00:03.0/virtio2"), "0000:00:03.0");
}

}  // namespace
}  // namespace nccl_check::node
