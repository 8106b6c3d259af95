#include "tests/doubles/nccl/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace nccl_check::doubles {

bool interface_fits(const std::string& setting, const std::string& name) {
  std::string list = setting;
  const bool all_but = !list.empty() && list.front() == '^';
  if (all_but) list.erase(0, 1);
  const bool exact = !list.empty() && list.front() == '=';
  if (exact) list.erase(0, 1);
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (exact ? name == word : name.rfind(word, 0) == 0) return !all_but;
  }
  return all_but;
}

Interface chosen_interface() {
  Interface chosen{"lo", {htonl(INADDR_LOOPBACK)}};
  const char* setting = std::getenv("NCCL_SOCKET_IFNAME");
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return chosen;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0)
      continue;
    const bool fits =
        setting != nullptr ? interface_fits(setting, one->ifa_name) : (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!fits) continue;
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof address);
    chosen = {one->ifa_name, address.sin_addr};
    break;
  }
  ::freeifaddrs(all);
  return chosen;
}

}  // namespace nccl_check::doubles
