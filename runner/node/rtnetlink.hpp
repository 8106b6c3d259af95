#pragma once
// The kernel's own list of interfaces and addresses, by rtnetlink.
#include <cstddef>
#include <string_view>
#include <vector>

#include "node/interfaces.hpp"

namespace nccl_check::node {

// One message of an RTM_GETLINK or RTM_GETADDR dump, taken into the list. What is too short or not understood
// is left out.
void take_link(std::string_view message, std::vector<Link>& links);
void take_address(std::string_view message, std::vector<Link>& links);

}  // namespace nccl_check::node
