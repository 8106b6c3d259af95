#include "engine/fabric/choose.hpp"

#include <gmock/gmock.h>

namespace nccl_check::engine::fabric {
namespace {

using node::Interface;
using node::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

Interface interface(const std::string& name, const std::string& address, double speed, bool hardware = true) {
  Interface i;
  i.name = name;
  i.up = i.carrier = true;
  i.kind = hardware ? Kind::ethernet : Kind::virtual_device;
  i.hardware = hardware;
  i.speed = speed;
  if (!address.empty()) i.addresses.push_back(*node::parse_address(address));
  return i;
}

class Choice : public testing::Test {
 protected:
  Candidate& offer(const std::string& provider, const std::string& domain, const std::string& source = "") {
    Candidate c;
    c.index = candidates_.size();
    c.provider = provider;
    c.domain = domain;
    c.source = source;
    candidates_.push_back(c);
    return candidates_.back();
  }
  // Socket providers offer every address of every interface.
  void offer_sockets() {
    for (const char* provider : {"tcp;ofi_rxm", "net", "sockets"})
      for (const auto& i : interfaces_)
        for (const auto& a : i.addresses) offer(provider, i.name, a.text());
  }
  Result<Chosen> choice() { return choose(settings_, candidates_, interfaces_, toward_); }
  std::vector<std::string> rails() {
    const auto chosen = choice();
    if (!chosen) return {"error: " + chosen.error().text()};
    std::vector<std::string> names;
    for (const auto& rail : chosen->rails) names.push_back(rail.name);
    return names;
  }

  Settings settings_;
  std::vector<Candidate> candidates_;
  std::vector<Interface> interfaces_;
  Result<std::string> toward_ = Error{"no address was given", "", ""};
};

TEST_F(Choice, TheFastestInterfacesAreStripedOver) {
  interfaces_ = {interface("mgmt", "10.0.0.1", 1e9), interface("hs1", "10.2.0.1", 100e9),
                 interface("hs0", "10.1.0.1", 100e9)};
  offer_sockets();
  const auto chosen = choice();
  ASSERT_TRUE(chosen) << chosen.error().text();
  EXPECT_EQ(chosen->provider, "net");
  EXPECT_THAT(rails(), ElementsAre("hs0", "hs1")) << "by address, which is alike on all nodes";
  EXPECT_DOUBLE_EQ(chosen->line_rate, 25);
  EXPECT_EQ(chosen->line_text, "hs0 at 100 Gb/s, hs1 at 100 Gb/s");
}

TEST_F(Choice, WhatLeadsNowhereIsNotTaken) {
  auto down = interface("hs0", "10.1.0.1", 400e9);
  down.carrier = false;
  auto loopback = interface("lo", "127.0.0.1", 0, false);
  loopback.kind = Kind::loopback;
  auto docker = interface("docker0", "172.17.0.1", 0, false);
  docker.kind = Kind::bridge;
  interfaces_ = {loopback, docker, down, interface("hs2", "169.254.3.4", 400e9),
                 interface("eth0", "10.0.0.1", 10e9)};
  offer_sockets();
  EXPECT_THAT(rails(), ElementsAre("eth0"));
}

TEST_F(Choice, WhereNoSpeedIsKnownTheRouteDecides) {
  interfaces_ = {interface("veth0", "10.0.0.1", 0, false), interface("veth1", "10.9.0.1", 0, false)};
  offer_sockets();
  toward_ = std::string("veth1");
  const auto chosen = choice();
  ASSERT_TRUE(chosen) << chosen.error().text();
  EXPECT_THAT(rails(), ElementsAre("veth1"));
  EXPECT_EQ(chosen->line_rate, 0);
  EXPECT_EQ(chosen->line_text, "veth1: a virtual device, whose speed is unknown");
}

TEST_F(Choice, WhereNothingDecidesTheAdminIsAsked) {
  interfaces_ = {interface("veth0", "10.0.0.1", 0, false), interface("veth1", "10.9.0.1", 0, false)};
  offer_sockets();
  const auto chosen = choice();
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().text(), testing::AllOf(HasSubstr("no address was given"),
                                                    HasSubstr("veth0 (10.0.0.1), veth1 (10.9.0.1)")));
  interfaces_.pop_back();
  candidates_.clear();
  offer_sockets();
  EXPECT_THAT(rails(), ElementsAre("veth0")) << "the only one needs no decision";
}

TEST_F(Choice, Ipv4IsPreferredAndIpv6AloneIsFine) {
  auto both = interface("eth0", "10.0.0.1", 10e9);
  both.addresses.push_back(*node::parse_address("fe80::1"));
  both.addresses.push_back(*node::parse_address("fd00::1"));
  interfaces_ = {both};
  offer("net", "eth0", "fe80::1");
  offer("net", "eth0", "fd00::1");
  EXPECT_EQ(choice()->rails[0].index, 1U);
  offer("net", "eth0", "10.0.0.1");
  EXPECT_EQ(choice()->rails[0].index, 2U);
}

TEST_F(Choice, NamedInterfacesAreTakenExactlyInTheirOrder) {
  interfaces_ = {interface("eth1", "10.0.0.1", 1e9), interface("eth10", "10.0.0.2", 100e9),
                 interface("lo", "127.0.0.1", 0, false)};
  offer_sockets();
  settings_.interfaces = {"eth1"};
  EXPECT_THAT(rails(), ElementsAre("eth1"));
  settings_.interfaces = {"lo", "eth10"};
  EXPECT_THAT(rails(), ElementsAre("lo", "eth10"));
}

TEST_F(Choice, AnUnknownInterfaceIsNamedWithWhatIsThere) {
  interfaces_ = {interface("eth0", "10.0.0.1", 1e9)};
  offer_sockets();
  settings_.interfaces = {"hsn0"};
  EXPECT_THAT(rails()[0],
              testing::AllOf(HasSubstr("no interface 'hsn0'"), HasSubstr("there are: eth0 (10.0.0.1)")));
  settings_.interfaces = {"eth0", "eth0"};
  EXPECT_THAT(rails()[0], HasSubstr("named twice"));
}

TEST_F(Choice, AnUnknownProviderIsNamedWithWhatIsThere) {
  interfaces_ = {interface("eth0", "10.0.0.1", 1e9)};
  offer_sockets();
  settings_.provider = "cxi";
  EXPECT_THAT(rails()[0],
              testing::AllOf(HasSubstr("no provider 'cxi'"), HasSubstr("tcp;ofi_rxm, net, sockets")));
}

TEST_F(Choice, ACoreProviderIsTakenWithTheLayerItNeeds) {
  interfaces_ = {interface("eth0", "10.0.0.1", 1e9)};
  offer_sockets();
  settings_.provider = "tcp";
  EXPECT_EQ(choice()->provider, "tcp;ofi_rxm");
  offer("tcp", "eth0", "10.0.0.1");
  EXPECT_EQ(choice()->provider, "tcp") << "where it has its own, that";
}

TEST_F(Choice, HardwareComesBeforeSockets) {
  interfaces_ = {interface("hsn0", "10.1.0.1", 200e9), interface("hsn1", "10.1.0.2", 200e9)};
  interfaces_[0].domains = {"cxi0"};
  interfaces_[1].domains = {"cxi1"};
  offer_sockets();
  offer("cxi", "cxi0").speed = 200e9;
  offer("cxi", "cxi1").speed = 200e9;
  const auto chosen = choice();
  ASSERT_TRUE(chosen) << chosen.error().text();
  EXPECT_EQ(chosen->provider, "cxi");
  EXPECT_THAT(rails(), ElementsAre("cxi0", "cxi1"));
  EXPECT_DOUBLE_EQ(chosen->line_rate, 50);
  settings_.interfaces = {"hsn1"};
  EXPECT_THAT(rails(), ElementsAre("cxi1")) << "by the name of its network interface too";
}

TEST_F(Choice, HardwareWhoseLinkIsDownIsPassedOver) {
  interfaces_ = {interface("eth0", "10.0.0.1", 10e9)};
  offer_sockets();
  auto& port = offer("verbs;ofi_rxm", "mlx5_0");
  port.link_down = true;
  port.speed = 400e9;
  EXPECT_EQ(choice()->provider, "net");
  settings_.interfaces = {"mlx5_0"};
  EXPECT_THAT(rails()[0], HasSubstr("link of 'mlx5_0' is down"));
}

TEST_F(Choice, ADeviceIsFoundByItsBusAddress) {
  interfaces_ = {interface("ib0", "", 0)};
  interfaces_[0].device = "0000:41:00.0";
  offer("opx", "hfi1_0").pci = "0000:41:00.0";
  settings_.interfaces = {"ib0"};
  EXPECT_THAT(rails(), ElementsAre("hfi1_0"));
}

TEST_F(Choice, WithoutAnyProviderThatIsSaid) {
  EXPECT_THAT(rails()[0], HasSubstr("there are: none"));
  offer("shm", "shm");
  EXPECT_THAT(rails()[0], HasSubstr("there are: shm"));
}

TEST_F(Choice, AsManyInterfacesAsCanBeAddressed) {
  for (int i = 0; i < 17; ++i)
    interfaces_.push_back(interface("eth" + std::to_string(i), "10.0.0." + std::to_string(i + 1), 1e9));
  offer_sockets();
  EXPECT_THAT(rails()[0], HasSubstr("17 interfaces are equally fast; at most 16"));
}

}  // namespace
}  // namespace nccl_check::engine::fabric
