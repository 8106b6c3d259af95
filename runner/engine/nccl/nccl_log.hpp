#pragma once
// NCCL's own log, kept in memory: which network it took and what it warned of.
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "engine/nccl/ports.hpp"

namespace nccl_check::engine::nccl {

// What the log says. Lines as NCCL 2.18 to 2.30 write them with NCCL_DEBUG=INFO, subsystems INIT and NET.
struct NcclLog {
  std::string network;  // "IB mlx5_0:1, mlx5_1:1", "Socket eth0", "AWS Libfabric"; empty: it does not say
  bool between_hosts = false;  // a channel really goes over the network
  int channels = 0;            // of collectives; 0: it does not say
  std::string warning;         // the last one
};
NcclLog parse_nccl_log(std::string_view text);

// What a person should know of the network: "NCCL used Socket though 8 InfiniBand ports are active". Empty:
// nothing. IPoIB aside, a port's link layer (RoCE) makes no difference.
std::string network_remark(const NcclLog& log, const Ports& ports);

// Makes NCCL write its log into memory, by environment variables that it reads when it is first called; not
// where the environment asks for a log of its own. Call while no other thread runs.
class LogCapture {
 public:
  void start();
  [[nodiscard]] std::string text() const;  // so far; empty: not captured

 private:
  UniqueFd fd_;
};

}  // namespace nccl_check::engine::nccl
