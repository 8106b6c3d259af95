#include "node/interfaces.hpp"

#include <gmock/gmock.h>
#include <net/if.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace nccl_check::node {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// A sysfs made for the test, laid out as the kernel's: class/net/NAME links to the device's folder.
class Sysfs : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/nccl-check-node-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    fs::create_directories(root_ / "sys/class/net");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  // Relative, as sysfs's are.
  static void link(const fs::path& target, const fs::path& at) {
    fs::create_symlink(target.lexically_relative(at.parent_path()), at);
  }
  // `device` empty: a virtual one.
  fs::path add(const std::string& name, const std::string& device, unsigned index, int type = 1) {
    const fs::path folder = device.empty() ? "sys/devices/virtual/net/" + name
                                           : "sys/devices/pci0000:00/" + device + "/net/" + name;
    write(folder / "ifindex", std::to_string(index));
    write(folder / "type", std::to_string(type));
    link(root_ / folder, root_ / "sys/class/net" / name);
    if (!device.empty()) link(root_ / folder.parent_path().parent_path(), root_ / folder / "device");
    Link link;
    link.name = name;
    link.index = index;
    link.up = link.running = true;
    links_.push_back(link);
    return folder;
  }
  Interface only(const std::string& name) {
    for (auto& i : read_interfaces(root_.string(), links_))
      if (i.name == name) return i;
    ADD_FAILURE() << name << " is missing";
    return {};
  }

  fs::path root_;
  std::vector<Link> links_;
};

TEST_F(Sysfs, HardwareHasItsSpeedItsBusAddressAndItsRdmaDevices) {
  const auto folder = add("hsn0", "0000:41:00.0", 7);
  write(folder / "speed", "200000");
  write(folder / "carrier", "1");
  fs::create_directories(root_ / "sys/devices/pci0000:00/0000:41:00.0/infiniband/mlx5_0");
  const auto i = only("hsn0");
  EXPECT_EQ(i.kind, Kind::ethernet);
  EXPECT_TRUE(i.hardware && i.up && i.carrier);
  EXPECT_EQ(i.device, "0000:41:00.0");
  EXPECT_DOUBLE_EQ(i.speed, 200e9);
  EXPECT_THAT(i.domains, ElementsAre("mlx5_0"));
}

TEST_F(Sysfs, AVirtualDevicesSpeedIsAFictionAndNotTaken) {
  write(add("veth0", "", 3) / "speed", "10000");
  const auto i = only("veth0");
  EXPECT_EQ(i.kind, Kind::virtual_device);
  EXPECT_FALSE(i.hardware);
  EXPECT_EQ(i.speed, 0);
}

TEST_F(Sysfs, AnUnknownOrUnreadableSpeedIsZero) {
  write(add("eth0", "0000:01:00.0", 2) / "speed", "-1");
  add("eth1", "0000:02:00.0", 3);
  EXPECT_EQ(only("eth0").speed, 0);
  EXPECT_EQ(only("eth1").speed, 0);
}

TEST_F(Sysfs, ABondOfHardwareIsTrustedAndItsPortsAreMarked) {
  const auto one = add("eth0", "0000:01:00.0", 2);
  write(one / "speed", "100000");
  const auto bond = add("bond0", "", 4);
  fs::create_directories(root_ / bond / "bonding");
  write(bond / "speed", "200000");
  link(root_ / one, root_ / bond / "lower_eth0");
  link(root_ / bond, root_ / one / "master");
  EXPECT_EQ(only("bond0").kind, Kind::bond);
  EXPECT_TRUE(only("bond0").hardware);
  EXPECT_DOUBLE_EQ(only("bond0").speed, 200e9);
  EXPECT_TRUE(only("eth0").enslaved);
  EXPECT_THAT(only("bond0").lower, ElementsAre("eth0"));
}

TEST_F(Sysfs, ABridgeOverVirtualPortsIsNoHardware) {
  const auto bridge = add("docker0", "", 5);
  fs::create_directories(root_ / bridge / "bridge");
  write(bridge / "speed", "10000");
  link(root_ / add("veth1", "", 6), root_ / bridge / "lower_veth1");
  EXPECT_EQ(only("docker0").kind, Kind::bridge);
  EXPECT_FALSE(only("docker0").hardware);
  EXPECT_EQ(only("docker0").speed, 0);
}

TEST_F(Sysfs, AVlanIsKnownByItsDeviceType) {
  const auto vlan = add("eth0.5", "", 8);
  write(vlan / "uevent", "DEVTYPE=vlan\nINTERFACE=eth0.5");
  EXPECT_EQ(only("eth0.5").kind, Kind::vlan);
}

TEST_F(Sysfs, CarrierIsTakenFromSysfs) {
  write(add("eth0", "0000:01:00.0", 2) / "carrier", "0");
  EXPECT_FALSE(only("eth0").carrier);
  links_[0].up = false;
  write("sys/class/net/eth0/carrier", "1");
  EXPECT_FALSE(only("eth0").carrier) << "what is down has no carrier";
}

// In another network namespace than sysfs shows, eth0 there is not our eth0.
TEST_F(Sysfs, ANamesakesDetailsAreNotTaken) {
  write(add("eth0", "0000:01:00.0", 2) / "speed", "100000");
  links_[0].index = 9;
  const auto i = only("eth0");
  EXPECT_EQ(i.kind, Kind::unknown);
  EXPECT_EQ(i.speed, 0);
  EXPECT_FALSE(i.hardware);
  EXPECT_TRUE(i.up && i.carrier) << "that is the kernel's own word";
}

TEST_F(Sysfs, WithoutSysfsOnlyTheKernelsWordIsLeft) {
  links_.push_back(Link{"lo", 1, true, true, true, {*parse_address("127.0.0.1")}});
  const auto i = only("lo");
  EXPECT_EQ(i.kind, Kind::loopback);
  EXPECT_FALSE(i.hardware);
}

TEST(Address, IsReadAndWritten) {
  EXPECT_EQ(parse_address("10.1.2.3")->text(), "10.1.2.3");
  EXPECT_EQ(parse_address("fd00::2")->text(), "fd00::2");
  EXPECT_FALSE(parse_address("n1"));
  EXPECT_FALSE(parse_address(""));
  EXPECT_FALSE(parse_address("10.1.2.3 "));
  EXPECT_TRUE(parse_address("169.254.0.1")->link_local());
  EXPECT_TRUE(parse_address("fe80::1")->link_local());
  EXPECT_FALSE(parse_address("fd00::1")->link_local());
}

TEST(Live, LoopbackIsFoundAndLeadsToItself) {
  const auto links = read_links();
  ASSERT_TRUE(links);
  const auto interfaces = read_interfaces("/", *links);
  const auto lo =
      std::find_if(interfaces.begin(), interfaces.end(), [](const Interface& i) { return i.name == "lo"; });
  ASSERT_NE(lo, interfaces.end());
  EXPECT_EQ(lo->kind, Kind::loopback);
  EXPECT_EQ(lo->index, if_nametoindex("lo"));
  const auto toward = interface_toward("127.0.0.1", interfaces);
  ASSERT_TRUE(toward) << toward.error().text();
  EXPECT_EQ(*toward, "lo");
  const auto routed = interface_toward("127.9.9.9", interfaces);
  ASSERT_TRUE(routed) << routed.error().text();
  EXPECT_EQ(*routed, "lo");
}

TEST(Live, WhatIsNoAddressIsRefusedByName) {
  const auto toward = interface_toward("node7", {});
  ASSERT_FALSE(toward);
  EXPECT_THAT(toward.error().text(), HasSubstr("'node7' is not a numeric"));
}

}  // namespace
}  // namespace nccl_check::node
