// The kernel's messages, also cut short and with lengths that lie.
#include "node/rtnetlink.hpp"

#include <gmock/gmock.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cstring>

namespace nccl_check::node {
namespace {

std::string attribute(unsigned short type, const std::string& payload) {
  const rtattr head{static_cast<unsigned short>(sizeof(rtattr) + payload.size()), type};
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out += payload;
  out.resize((out.size() + 3U) & ~std::size_t{3});
  return out;
}

std::string link_message() {
  ifinfomsg info{};
  info.ifi_index = 7;
  info.ifi_flags = IFF_UP | IFF_RUNNING;
  const unsigned mtu = 9000;
  return std::string(reinterpret_cast<const char*>(&info), sizeof info) +
         attribute(IFLA_IFNAME, std::string("veth7\0", 6)) +
         attribute(IFLA_MTU, std::string(reinterpret_cast<const char*>(&mtu), 4)) +
         attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, std::string("veth\0", 5)));
}

std::string address_message(int index) {
  ifaddrmsg info{};
  info.ifa_family = AF_INET;
  info.ifa_prefixlen = 31;
  info.ifa_scope = RT_SCOPE_UNIVERSE;
  info.ifa_index = static_cast<unsigned>(index);
  // The other end of a point-to-point link comes first.
  return std::string(reinterpret_cast<const char*>(&info), sizeof info) +
         attribute(IFA_ADDRESS, std::string("\x0a\x0b\x01\x01", 4)) +
         attribute(IFA_LOCAL, std::string("\x0a\x0b\x01\x02", 4));
}

TEST(Rtnetlink, AnInterfaceAndItsAddress) {
  std::vector<Link> links;
  take_link(link_message(), links);
  take_address(address_message(7), links);
  take_address(address_message(8), links);  // of an interface that came since
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].name, "veth7");
  EXPECT_EQ(links[0].type, "veth");
  EXPECT_EQ(links[0].mtu, 9000U);
  ASSERT_EQ(links[0].addresses.size(), 1U);
  EXPECT_EQ(links[0].addresses[0].text(), "10.11.1.2") << "this end's";
  EXPECT_EQ(links[0].addresses[0].prefix, 31U);
  EXPECT_EQ(links[0].addresses[0].scope, Scope::global);
}

TEST(Rtnetlink, ACutMessageIsTakenAsFarAsItGoes) {
  const auto whole = link_message();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<Link> links;
    take_link(std::string_view(whole).substr(0, size), links);
    for (const auto& link : links) EXPECT_EQ(link.name, "veth7");
  }
}

}  // namespace
}  // namespace nccl_check::node
