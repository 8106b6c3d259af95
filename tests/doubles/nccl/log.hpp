#pragma once
// NCCL's own log: with NCCL_DEBUG=INFO, into NCCL_DEBUG_FILE (%h the host, %p the process) or to stdout.
#include <string>

namespace nccl_check::doubles {

void log_info(int device, const std::string& text);
// What a communicator's making says: version, network, channels.
void log_init(int device, int rank, int ranks);
std::string network();  // "IB" or "Socket": what this host's NCCL uses

}  // namespace nccl_check::doubles
