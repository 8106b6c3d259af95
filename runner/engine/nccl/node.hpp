#pragma once
// Opening: the libraries, the job's GPUs, whether they can and may be measured.
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/nccl/address.hpp"
#include "engine/nccl/communicator.hpp"
#include "engine/nccl/crew.hpp"
#include "engine/nccl/cuda_api.hpp"
#include "engine/nccl/device.hpp"
#include "engine/nccl/nccl_api.hpp"
#include "engine/nccl/nccl_log.hpp"
#include "engine/nccl/ports.hpp"
#include "engine/nccl/readings.hpp"

namespace nccl_check::engine::nccl {

// A member for each of this node's GPUs, in their order.
using Members = std::vector<std::unique_ptr<Communicator>>;

// What stays open until the process ends. Threads of the crew work on it.
struct Node {
  explicit Node(Heartbeat heartbeat) : crew(std::move(heartbeat)) {}

  // The crew's threads: three that open libraries, then for each GPU one for it and one for its NCCL.
  static constexpr int cuda_thread = 0, nccl_thread = 1, nvml_thread = 2, first_gpu_thread = 3;
  [[nodiscard]] static int gpu_thread(std::size_t gpu) {
    return first_gpu_thread + 2 * static_cast<int>(gpu);
  }
  [[nodiscard]] static int init_thread(std::size_t gpu) { return gpu_thread(gpu) + 1; }

  Crew crew;
  Settings settings;
  std::string root = "/";  // of sysfs and procfs
  LogCapture log;
  Ports ports;
  CudaApi cuda;
  NcclApi nccl;
  std::optional<NvmlApi> nvml;  // nothing: this node has none, so health and ceilings are unknown
  std::vector<NvmlGpu> shown;   // by NVML
  std::vector<Known> visible;   // by CUDA
  std::vector<CUdevice> handles;
  std::vector<Chosen> chosen;
  std::vector<std::unique_ptr<Device>> devices;  // in the order of `chosen`
  std::vector<NvmlDevice> monitors;              // NVML's handles, likewise; null: unknown
  std::vector<Readings> readings;                // likewise
  std::vector<UniqueIdBytes> ids;                // the address's, and one for this node alone at the end

  Members alone;  // this node's own communicator, once it is made

  // Which of Slurm's words are numbers, MIG parts and so on is choose_gpus()'s business.
  Trouble open(const Settings& wanted, Deadline deadline);
  [[nodiscard]] Opened describe() const;

 private:
  Trouble set_environment();
  Trouble open_libraries(Deadline deadline);
  Trouble start_cuda();
  Trouble start_nccl();
  Trouble start_health();
  Trouble choose();
  Trouble open_gpus(Deadline deadline);
  Trouble check_modes();
  Trouble read_health();
};

}  // namespace nccl_check::engine::nccl
