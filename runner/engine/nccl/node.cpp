#include "engine/nccl/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "base/text.hpp"
#include "engine/nccl/affinity.hpp"
#include "engine/nccl/cuda_errors.hpp"
#include "engine/nccl/health.hpp"
#include "engine/nccl/kernel_list.hpp"
#include "engine/nccl/sharing.hpp"
#include "kernels/image.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;

Trouble as_trouble(const Error& error) {
  return Failure{Class::untested, error};
}

std::string uuid_text(const CUuuid& uuid) {
  const auto digits = to_hex({uuid.bytes, sizeof uuid.bytes});
  return fmt::format("GPU-{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                     digits.substr(16, 4), digits.substr(20));
}

bool all_uuids(const std::vector<std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [](const auto& text) { return text.starts_with("GPU-"); });
}

}  // namespace

Trouble Node::open(const Settings& wanted, Deadline deadline) {
  settings = wanted;
  if (kernels::image().empty())
    return untested("this build has no CUDA kernels: nvcc was missing when it was made", "",
                    "build nccl-check where nvcc is, or give -DNCCL_CHECK_NVCC=");
  if (auto trouble = set_environment()) return trouble;
  // Numbers must become UUIDs before the driver starts, so that it touches this job's GPUs alone. Who they
  // really are is looked at once more when NVML and CUDA have started.
  std::vector<std::string> uuids = all_uuids(settings.gpus) ? settings.gpus : std::vector<std::string>{};
  if (!settings.gpus.empty() && uuids.empty())
    if (const auto known = kernel_list(root); !known.empty())
      if (auto found = choose_gpus(settings.gpus, known); found)
        for (const auto& gpu : *found) uuids.push_back(gpu.gpu.uuid);
  if (!settings.gpus.empty() && uuids.empty()) {
    Batch batch(crew, "NVML's start", deadline);
    batch.add(nvml_thread, "this node", [this](const Patience&) { return start_health(); });
    if (auto trouble = batch.wait()) return trouble;
    if (nvml) (void)choose();  // what NVML alone does not show is looked for once more when CUDA has started
  }
  for (const auto& gpu : chosen) uuids.push_back(gpu.gpu.uuid);
  if (!uuids.empty() && all_uuids(uuids)) ::setenv("CUDA_VISIBLE_DEVICES", join(uuids, ",").c_str(), 1);
  if (auto trouble = open_libraries(deadline)) return trouble;
  if (auto trouble = choose()) return trouble;
  return open_gpus(deadline);
}

// Before any library is loaded and while no other thread runs: what CUDA and NCCL read when they start.
Trouble Node::set_environment() {
  if (const int pid = mps_daemon(root, std::getenv("CUDA_MPS_PIPE_DIRECTORY")); pid != 0)
    return untested(
        fmt::format("MPS is running (process {}): GPUs that others may share are not measured", pid), "",
        "stop MPS for this check, or switch the check off for these jobs");
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  log.start();
  ports = read_ports(root);
  return std::nullopt;
}

Trouble Node::open_libraries(Deadline deadline) {
  Batch batch(crew, "opening the libraries", deadline);
  batch.add(cuda_thread, "CUDA driver", [this](const Patience&) { return start_cuda(); });
  batch.add(nccl_thread, "NCCL", [this](const Patience&) { return start_nccl(); });
  if (!nvml) batch.add(nvml_thread, "NVML", [this](const Patience&) { return start_health(); });
  return batch.wait();
}

Trouble Node::start_cuda() {
  auto api = open_cuda(settings.cuda_library);
  if (!api) return as_trouble(api.error());
  cuda = *api;
  if (auto fits = driver_fits(cuda.version, kernels::toolkit_version()); !fits)
    return untested(fits.error().what, cuda.path, fits.error().remedy);
  const auto failed = [&](CUresult code, const char* doing) -> Trouble {
    const char* name = nullptr;
    if (cuda.GetErrorName(code, &name) != CUDA_SUCCESS) name = nullptr;
    return cuda_failure(code, name == nullptr ? "" : name, doing, "this node");
  };
  if (const auto code = cuda.Init(0); code != CUDA_SUCCESS) return failed(code, "cuInit");
  int count = 0;
  if (const auto code = cuda.DeviceGetCount(&count); code != CUDA_SUCCESS)
    return failed(code, "counting the GPUs");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    CUuuid uuid{};
    std::array<char, 32> pci{};
    std::array<char, 128> name{};
    auto code = cuda.DeviceGet(&device, ordinal);
    if (code == CUDA_SUCCESS) code = cuda.DeviceGetUuid(&uuid, device);
    if (code == CUDA_SUCCESS) code = cuda.DeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), device);
    if (code == CUDA_SUCCESS)
      code = cuda.DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device);
    if (code != CUDA_SUCCESS) return failed(code, "asking who a GPU is");
    Known known;
    known.index = static_cast<std::uint32_t>(ordinal);
    known.uuid = uuid_text(uuid);
    known.pci = pci_address(pci.data());
    known.name = printable(name.data(), 100);
    visible.push_back(known);
    handles.push_back(device);
  }
  return std::nullopt;
}

// The ids' sockets and threads are NCCL's; they serve until used.
Trouble Node::start_nccl() {
  auto api = open_nccl(settings.library);
  if (!api) return as_trouble(api.error());
  nccl = *api;
  for (std::size_t i = 0; i < ids_in_address + 1; ++i) {
    ncclUniqueId id{};
    if (const auto code = nccl.GetUniqueId(&id); code != ncclSuccess) {
      const char* last = nccl.GetLastError(nullptr);
      return untested(fmt::format("NCCL could not make a unique id: {} {}", nccl.GetErrorString(code),
                                  last == nullptr ? "" : printable(last)),
                      nccl.path, "see NCCL_SOCKET_IFNAME: it needs a network interface that is up");
    }
    std::copy(std::begin(id.internal), std::end(id.internal), ids.emplace_back().begin());
  }
  return std::nullopt;
}

// Without NVML (some containers) GPUs are measured all the same; a path that was given must be right.
Trouble Node::start_health() {
  auto api = start_nvml(settings.nvml_library);
  if (!api) {
    if (api.failure().cls == Class::untested && settings.nvml_library.empty()) return std::nullopt;
    return api.failure();
  }
  auto list = list_gpus(*api);
  if (!list) return list.failure();
  nvml = *api;
  shown = std::move(*list);
  return std::nullopt;
}

Trouble Node::choose() {
  if (!chosen.empty()) return std::nullopt;
  std::vector<Known> known;
  for (const auto& gpu : shown) known.push_back(gpu.known);
  if (known.empty()) known = visible;
  auto found = choose_gpus(settings.gpus, known);
  // A node is not accused while its two witnesses differ.
  if (!found && found.failure().cls == Class::broken && visible.size() > shown.size() && !shown.empty())
    return untested(fmt::format("NVML shows {} GPUs and CUDA {}: {}", shown.size(), visible.size(),
                                found.failure().error.what),
                    "", "see nvidia-smi and the kernel's log");
  if (!found) return found.failure();
  chosen = std::move(*found);
  return std::nullopt;
}

Trouble Node::open_gpus(Deadline deadline) {
  for (const auto& gpu : chosen) {
    const auto seen = std::find_if(visible.begin(), visible.end(), [&](const Known& one) {
      return one.uuid == gpu.gpu.uuid || (!gpu.gpu.pci.empty() && one.pci == gpu.gpu.pci);
    });
    if (seen == visible.end())
      return Failure{
          Class::broken,
          {fmt::format("the driver lists this GPU ({}), but CUDA can't use it", gpu.gpu.uuid),
           gpu_text(gpu.number, gpu.gpu.pci), "see the kernel's log; reset the GPU or reboot the node"}};
    devices.push_back(
        std::make_unique<Device>(cuda, gpu, handles[static_cast<std::size_t>(seen - visible.begin())]));
    const auto monitor = std::find_if(shown.begin(), shown.end(),
                                      [&](const NvmlGpu& one) { return one.known.uuid == gpu.gpu.uuid; });
    monitors.push_back(monitor == shown.end() ? nullptr : monitor->device);
  }
  readings.resize(devices.size());
  if (auto trouble = check_modes()) return trouble;
  Batch batch(crew, "making contexts", deadline);
  for (std::size_t i = 0; i < devices.size(); ++i)
    batch.add(gpu_thread(i), devices[i]->where(), [this, i](const Patience&) {
      bind_near(root, devices[i]->chosen().gpu.pci);
      devices[i]->open();
      const auto& trouble = devices[i]->trouble();
      return trouble && devices[i]->out_of_memory() ? with_holders(*trouble, *this, i) : trouble;
    });
  batch.add(nvml_thread, "health", [this](const Patience&) { return read_health(); });
  return batch.wait();
}

// Compute modes (cuda.h, CUcomputemode): 2 prohibited, 3 one process at a time.
Trouble Node::check_modes() {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    int mode = 0;
    const auto seen = std::find_if(visible.begin(), visible.end(),
                                   [&](const Known& one) { return one.uuid == chosen[i].gpu.uuid; });
    if (seen == visible.end()) continue;
    const auto handle = handles[static_cast<std::size_t>(seen - visible.begin())];
    if (cuda.DeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, handle) != CUDA_SUCCESS) continue;
    if (mode == CU_COMPUTEMODE_PROHIBITED)
      return untested("its compute mode is 'prohibited'", devices[i]->where(), "nvidia-smi -c 0");
    if (mode != CU_COMPUTEMODE_EXCLUSIVE_PROCESS || !nvml || monitors[i] == nullptr) continue;
    if (!processes_on(*nvml, monitors[i]).empty())
      return with_holders(
          untested("its compute mode is EXCLUSIVE_PROCESS and a process has it", devices[i]->where()), *this,
          i);
  }
  return std::nullopt;
}

Trouble Node::read_health() {
  if (!nvml) return std::nullopt;
  std::vector<Checked> checked;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (monitors[i] == nullptr) continue;
    readings[i] = read_gpu(*nvml, monitors[i]);
    checked.push_back({devices[i]->where(), readings[i]});
  }
  return judge_health(checked);
}

Opened Node::describe() const {
  Opened out;
  auto& description = out.description;
  description.engine = "nccl";
  description.versions["NCCL"] = nccl_version_text(nccl.version);
  description.versions["CUDA driver"] = cuda_version_text(cuda.version);
  const auto driver = nvml ? driver_version(*nvml) : "";
  if (!driver.empty()) description.versions["NVIDIA driver"] = driver;
  std::set<std::string> models;
  for (const auto& gpu : chosen) {
    description.devices.push_back(gpu.gpu.name);
    models.insert(gpu.gpu.name);
  }
  description.device_text = join({models.begin(), models.end()}, " and ");
  description.ranks = static_cast<int>(devices.size());
  // A part of the node's GPUs reaches at least their share of its ports: NCCL takes those near its GPUs.
  const auto all = std::max(shown.size(), devices.size());
  description.line_rate = ports.rate * static_cast<double>(devices.size()) / static_cast<double>(all);
  description.line_text = ports.text;
  if (ports.rate > 0 && devices.size() < all)
    description.line_text = fmt::format("the share of {} of {} GPUs in {}", devices.size(), all, ports.text);
  out.address = write_address({description.ranks, {ids.begin(), ids.begin() + ids_in_address}});
  return out;
}

}  // namespace nccl_check::engine::nccl
