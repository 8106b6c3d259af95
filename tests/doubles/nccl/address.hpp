#pragma once
// This host's address for NCCL, chosen by NCCL_SOCKET_IFNAME: prefixes, or "=" exact, "^" all but these.
#include <netinet/in.h>

#include <string>

namespace nccl_check::doubles {

struct Interface {
  std::string name;
  in_addr address{};
};
bool interface_fits(const std::string& setting, const std::string& name);
Interface chosen_interface();  // loopback where there is no other

}  // namespace nccl_check::doubles
