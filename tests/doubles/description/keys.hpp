#pragma once
// The words of a description file, and where each value goes.
#include <string>

#include "tests/doubles/description/description.hpp"

namespace nccl_check::doubles {

// False: no such key, or no such value of it.
bool set_host_key(Host& host, const std::string& key, const std::string& value);
bool set_fault_key(Fault& fault, const std::string& key, const std::string& value);
std::optional<Kind> kind_of(const std::string& word);

}  // namespace nccl_check::doubles
