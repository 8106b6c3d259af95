#include "tests/doubles/description/rates.hpp"

#include <algorithm>

#include "tests/doubles/description/faults.hpp"

namespace nccl_check::doubles {
namespace {

double live_links(int gpu) {
  int live = 0;
  for (int link = 0; link < description()->host.nvlinks; ++link) {
    live += standing(Kind::nvlinks_down, {.gpu = gpu, .link = link}) == nullptr ? 1 : 0;
  }
  return live;
}

// A narrower or slower link carries that much less.
double link_share(int gpu) {
  const Host& host = description()->host;
  double share = 1;
  if (const Fault* width = standing(Kind::pcie_width, {.gpu = gpu})) {
    share *= static_cast<double>(width->value) / host.pcie_width;
  }
  if (const Fault* generation = standing(Kind::pcie_generation, {.gpu = gpu})) {
    for (long g = generation->value; g < host.pcie_generation; ++g) share /= 2;
  }
  return share;
}

}  // namespace

double memory_rate(int gpu) {
  return description()->host.memory_bandwidth * factor(Kind::slow_memory, {.gpu = gpu});
}

double host_rate(int gpu, bool pinned) {
  const double rate =
      description()->host.host_link * link_share(gpu) * factor(Kind::slow_host_link, {.gpu = gpu});
  return pinned ? rate : rate / 2;
}

double peer_rate(int gpu, int peer) {
  const double slow = factor(Kind::slow_link, {.gpu = gpu, .peer = peer});
  const double links = std::min(live_links(gpu), live_links(peer));
  if (links == 0) return std::min(host_rate(gpu, true), host_rate(peer, true)) * slow;
  return links * description()->host.nvlink_bandwidth * slow;
}

double network_rate(int gpu, int ranks_on_host) {
  const Host& host = description()->host;
  if (host.network == "Socket") return host.socket_rate / ranks_on_host;
  double rate = 0;
  for (int nic = 0; nic < host.nics_per_gpu; ++nic) {
    rate += host.nic_rate * factor(Kind::slow_nic, {.gpu = gpu, .nic = nic});
  }
  return rate;
}

std::uint64_t mixed(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

double lasting(double bytes, double rate, std::uint64_t key) {
  const Host& host = description()->host;
  const double random = static_cast<double>(mixed(host.seed ^ mixed(key)) >> 11U) * 0x1p-52 - 1;  // -1 to 1
  return (bytes / rate + host.latency) * (1 + host.noise * random);
}

}  // namespace nccl_check::doubles
