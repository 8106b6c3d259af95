#pragma once
// What the stand-ins of libcuda, libnccl and libnvidia-ml simulate. One file describes all hosts:
//
//   # A comment. Keys before the first section hold for every host.
//   gpus = 8
//   [host n2]                   what differs on one host; a pattern such as n* does too
//   memory_bandwidth = 2100
//   [fault slow_nic]            what is wrong; as many as you like
//   host = n2                   pattern; left out: every host. Likewise gpu, peer, nic, link: -1 or left out:
//   any gpu = 3 factor = 0.5
//
// The file: $NCCL_CHECK_SIMULATION, else simulation.conf beside the library; none: one healthy host. This
// host's name: $NCCL_CHECK_SIMULATED_HOST, else gethostname(). Whatever is wrong in the file is printed and
// makes every call fail.
//
// Keys of a host, with their defaults; rates are what is reached, in GB/s (1e9 bytes a second):
//   gpus = 8                    at most 16; named by index in PCI order, which is the minor number too
//   model = H200                the device's name is "SIMULATED H200"
//   memory = 150754820096       bytes reported, or with a unit: 141 GB, 64 MiB
//   real_memory = 64 MiB        bytes a GPU that can really be allocated
//   memory_bandwidth = 4200     device memory, read plus written
//   memory_bus_width = 6144     bits, by NVML and CUDA
//   memory_clock = 3201         MHz
//   multiprocessors = 132
//   compute_capability = 9.0
//   nvlinks = 18                a GPU, all to a switch; 0: peers over PCIe at the rate of host_link
//   nvlink_bandwidth = 20.6     a link and direction
//   nvlink_speed = 26562        a link, MB/s, as NVML puts it
//   host_link = 55              each way, pinned memory; half of it for pageable
//   pcie_generation = 5
//   pcie_width = 16
//   nics_per_gpu = 1            named mlx5_N, in the GPUs' order
//   nic_rate = 48               a NIC and direction
//   network = IB                NCCL's network, or Socket
//   socket_rate = 2.6           a host, where the network is Socket
//   numa_nodes = 2              the GPUs are spread evenly over them
//   driver = 13000              as cuDriverGetVersion counts
//   driver_text = 580.00-SIMULATED
//   nccl = 22809
//   latency = 5                 ns an operation
//   noise = 0.003               every duration varies by up to this share, both ways
//   seed = 1
//   init_time = 10              ms that a communicator's making really takes
//   connect_time = 5            ms that a non-blocking communicator's first operation really takes to connect
//
// Faults, with the keys that they take beside host and gpu. after = N: the first N such operations of a GPU
// in a process are healthy (faults that are looked up and not happened upon have none).
//   slow_memory, slow_host_link, slow_collectives: factor
//   slow_link: peer, factor     the way between two GPUs, both directions
//   slow_nic: nic, factor       nic counts within the GPU
//   hang, crash: stage          stage: init, context, allocate, kernel, copy, comm_init, collective
//   cuda_error: stage, code     init, context, allocate: at the call; kernel, copy: later, and for good
//   corrupt: stage              memory (what a kernel wrote), peer_copy, host_copy, collective: a flipped bit
//   nccl_error: stage, code, text     comm_init or collective, by ncclCommGetAsyncError; code 6 is remote
//   nvml_error: code            at nvmlInitWithFlags; 18: driver and library do not match
//   missing_gpu                 gone from the bus: the others keep UUID and minor number
//   ecc_errors: value           uncorrected, volatile
//   row_remap: reason           pending or failure
//   nvlinks_down: link
//   pcie_width, pcie_generation: value
//   throttled: reason           power_brake, hw_thermal, hw_slowdown, sw_thermal, sw_power
//   mig                         MIG mode is on
//   exclusive_process           compute mode; with "busy" too, a context can't be had
//   busy: value                 a process of this id uses the GPU
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace nccl_check::doubles {

constexpr int most_gpus = 16;

enum class Kind {
  slow_memory,
  slow_host_link,
  slow_collectives,
  slow_link,
  slow_nic,
  hang,
  crash,
  cuda_error,
  corrupt,
  nccl_error,
  nvml_error,
  missing_gpu,
  ecc_errors,
  row_remap,
  nvlinks_down,
  pcie_width,
  pcie_generation,
  throttled,
  mig,
  exclusive_process,
  busy,
};

enum class Stage {
  none,
  init,
  context,
  allocate,
  kernel,
  copy,
  comm_init,
  collective,
  memory,
  peer_copy,
  host_copy,
};

struct Fault {
  Kind kind = Kind::hang;
  Stage stage = Stage::none;
  std::string host = "*";
  int gpu = -1, peer = -1, nic = -1, link = -1;
  double factor = 0.5;
  int code = 0;
  long value = 0;
  std::uint64_t after = 0;
  std::string text, reason;
};

struct Host {
  std::string name;
  int gpus = 8;
  std::string model = "H200";
  std::uint64_t memory = 150754820096, real_memory = 64U << 20U;
  double memory_bandwidth = 4200;
  int memory_bus_width = 6144, memory_clock = 3201, multiprocessors = 132;
  double compute_capability = 9.0;
  int nvlinks = 18, nvlink_speed = 26562;
  double nvlink_bandwidth = 20.6, host_link = 55;
  int pcie_generation = 5, pcie_width = 16;
  int nics_per_gpu = 1;
  double nic_rate = 48, socket_rate = 2.6;
  std::string network = "IB";
  int numa_nodes = 2;
  int driver = 13000, nccl = 22809;
  std::string driver_text = "580.00-SIMULATED";
  double latency = 5, noise = 0.003;
  std::uint64_t seed = 1;
  int init_time = 10, connect_time = 5;
};

struct Description {
  Host host;                  // this one
  std::vector<Fault> faults;  // of this host
};

// `error` is set where the text can't be used, with the line's number.
struct Parsed {
  Description description;
  std::optional<std::string> error;
};
Parsed parse(std::istream& text, const std::string& host);

// The process's own, read once. nullptr: it can't be used, which was printed to stderr.
const Description* description();

}  // namespace nccl_check::doubles
