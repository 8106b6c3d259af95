#pragma once
// What else of a node bears on NCCL: limits, kernel modules, versions, libraries.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/origin.hpp"
#include "node/tree.hpp"

namespace nccl_check::node {

struct Limits {
  std::optional<std::uint64_t> memlock;                      // bytes, this process's own; no_limit: unlimited
  std::optional<std::uint64_t> shm;                          // bytes that /dev/shm may hold
  std::optional<std::uint64_t> huge_pages, huge_pages_free;  // number
  std::optional<std::uint64_t> huge_page_size;               // bytes
  Origin origin;
};
constexpr std::uint64_t no_limit = UINT64_MAX;
constexpr const char* recorded_shm = "/nccl-check/shm_bytes";  // where a recording has it

struct Modules {
  std::optional<bool> peermem;                   // nvidia_peermem or nv_peer_mem is loaded
  std::optional<bool> dma_buf;                   // the kernel's part of GPUDirect by DMA-BUF (5.12 on)
  std::optional<std::vector<std::string>> rdma;  // ib_*, rdma_*, mlx*, cxi*, efa that are loaded
  Origin origin;
};

struct Library {
  std::string path;     // as found; empty: not in the usual places
  std::string version;  // empty: its name does not say
};

struct System {
  std::string host;           // the node's name; empty: not known
  std::string kernel;         // "6.1.0-26-amd64"
  std::string nvidia_driver;  // "580.95.05"; empty: none, or not known
  Limits limits;
  Modules modules;
  Library nccl, libfabric, ofi_plugin;  // in the usual places alone: a job may bring its own
  Origin origin;
};

System read_system(Tree& tree);

}  // namespace nccl_check::node
