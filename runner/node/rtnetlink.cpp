#include "node/rtnetlink.hpp"

#include <fmt/format.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"

namespace nccl_check::node {
namespace {

constexpr std::size_t align(std::size_t size) {
  return (size + 3U) & ~std::size_t{3};
}

template <class T>
bool take(std::string_view from, T& out) {
  if (from.size() < sizeof out) return false;
  std::memcpy(&out, from.data(), sizeof out);
  return true;
}

// Calls for each attribute: its type and its payload.
void each_attribute(std::string_view rest, const std::function<void(unsigned, std::string_view)>& call) {
  rtattr head{};
  while (take(rest, head) && head.rta_len >= sizeof head && head.rta_len <= rest.size()) {
    const unsigned type = head.rta_type & 0x3fffU;  // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
    call(type, rest.substr(align(sizeof head), head.rta_len - align(sizeof head)));
    rest.remove_prefix(std::min(align(head.rta_len), rest.size()));
  }
}

std::string_view text_of(std::string_view payload) {
  return payload.substr(0, payload.find('\0'));
}

Scope scope_of(unsigned char scope) {
  switch (scope) {
    case RT_SCOPE_UNIVERSE:
      return Scope::global;
    case RT_SCOPE_SITE:
      return Scope::site;
    case RT_SCOPE_LINK:
      return Scope::link;
    case RT_SCOPE_HOST:
      return Scope::host;
    default:
      return Scope::unknown;
  }
}

Error failed(const char* doing) {
  return {fmt::format("the network interfaces could not be read: {}: {}", doing, std::strerror(errno)),
          "rtnetlink", ""};
}

// Asks for a dump and gives each message of the answer to `take_one`.
Status dump(int socket, unsigned short type, unsigned sequence, Deadline deadline,
            const std::function<void(std::string_view)>& take_one) {
  struct {
    nlmsghdr head;
    ifinfomsg body;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = type;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.head.nlmsg_seq = sequence;
  request.body.ifi_family = AF_UNSPEC;
  if (::send(socket, &request, sizeof request, 0) < 0) return failed("send");
  std::vector<char> buffer(1U << 16U);
  for (;;) {
    pollfd ready{socket, POLLIN, 0};
    if (::poll(&ready, 1, deadline.poll_ms()) <= 0) {
      if (errno == EINTR && !deadline.passed()) continue;
      return Error{"the kernel does not answer", "rtnetlink", ""};
    }
    const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return failed("recv");
    std::string_view rest(buffer.data(), static_cast<std::size_t>(size));
    nlmsghdr head{};
    while (take(rest, head) && head.nlmsg_len >= sizeof head && head.nlmsg_len <= rest.size()) {
      if (head.nlmsg_seq == sequence) {
        if (head.nlmsg_type == NLMSG_DONE) return success();
        if (head.nlmsg_type == NLMSG_ERROR) return Error{"the kernel refuses a dump", "rtnetlink", ""};
        take_one(rest.substr(sizeof head, head.nlmsg_len - sizeof head));
      }
      rest.remove_prefix(std::min(align(head.nlmsg_len), rest.size()));
    }
  }
}

}  // namespace

void take_link(std::string_view message, std::vector<Link>& links) {
  ifinfomsg info{};
  if (!take(message, info)) return;
  Link link;
  link.index = static_cast<unsigned>(info.ifi_index);
  link.up = (info.ifi_flags & IFF_UP) != 0;
  link.running = (info.ifi_flags & IFF_RUNNING) != 0;
  link.loopback = (info.ifi_flags & IFF_LOOPBACK) != 0;
  each_attribute(message.substr(align(sizeof info)), [&](unsigned type, std::string_view payload) {
    std::uint32_t mtu = 0;
    if (type == IFLA_IFNAME) link.name = text_of(payload);
    if (type == IFLA_MTU && take(payload, mtu)) link.mtu = mtu;
    if (type == IFLA_LINKINFO)
      each_attribute(payload, [&](unsigned inner, std::string_view word) {
        if (inner == IFLA_INFO_KIND) link.type = printable(text_of(word), 32);
      });
  });
  if (!link.name.empty()) links.push_back(std::move(link));
}

void take_address(std::string_view message, std::vector<Link>& links) {
  ifaddrmsg info{};
  if (!take(message, info) || (info.ifa_family != AF_INET && info.ifa_family != AF_INET6)) return;
  const auto link =
      std::find_if(links.begin(), links.end(), [&](const Link& l) { return l.index == info.ifa_index; });
  if (link == links.end()) return;
  Address address;
  address.family = info.ifa_family == AF_INET ? Address::Family::v4 : Address::Family::v6;
  address.prefix = info.ifa_prefixlen;
  address.scope = scope_of(info.ifa_scope);
  const std::size_t size = info.ifa_family == AF_INET ? 4 : 16;
  bool local = false, found = false;
  // IFA_LOCAL is this end of a point-to-point link, IFA_ADDRESS then the other.
  each_attribute(message.substr(align(sizeof info)), [&](unsigned type, std::string_view payload) {
    if (payload.size() < size || (type != IFA_LOCAL && (type != IFA_ADDRESS || local))) return;
    std::memcpy(address.bytes.data(), payload.data(), size);
    found = true;
    local = type == IFA_LOCAL;
  });
  if (found) link->addresses.push_back(address);
}

Result<std::vector<Link>> read_links() {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return failed("socket");
  const auto deadline = Deadline::in(Milliseconds(2000));
  std::vector<Link> links;
  if (auto done = dump(socket.get(), RTM_GETLINK, 1, deadline, [&](auto m) { take_link(m, links); }); !done)
    return done.error();
  if (auto done = dump(socket.get(), RTM_GETADDR, 2, deadline, [&](auto m) { take_address(m, links); });
      !done)
    return done.error();
  for (auto& link : links)
    std::stable_partition(link.addresses.begin(), link.addresses.end(),
                          [](const Address& a) { return a.family == Address::Family::v4; });
  return links;
}

}  // namespace nccl_check::node
