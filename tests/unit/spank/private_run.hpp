#pragma once
// A /run of the test program's own, so that job files stand where the plugin looks for them and nobody else
// sees them.
#include <string>

namespace nccl_check::fake {

// Once a process, before it has threads. Returns what failed, or "".
std::string enter_private_run();

}  // namespace nccl_check::fake
