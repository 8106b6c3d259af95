#include "engine/nccl/readings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;

constexpr std::uint32_t most_links = 18;            // NVML_NVLINK_MAX_LINKS up to Blackwell
constexpr int uncorrected = 1, volatile_count = 0;  // nvmlMemoryErrorType_t, nvmlEccCounterType_t
constexpr int memory_clock = 2;                     // NVML_CLOCK_MEM
constexpr std::uint32_t fabric_version_3 = sizeof(NvmlFabricInfo) | (3U << 24U);
constexpr std::uint32_t fabric_version_2 = offsetof(NvmlFabricInfo, health_summary) | (2U << 24U);

// A function's single value, where the library has it and it answers.
template <class T, class Function, class... More>
std::optional<T> ask(Function function, NvmlDevice device, More... more) {
  T value{};
  if (function == nullptr || function(device, more..., &value) != nvml::success) return std::nullopt;
  return value;
}

std::string text_of(int (*function)(NvmlDevice, char*, std::uint32_t), NvmlDevice device) {
  std::array<char, 128> text{};
  if (function == nullptr || function(device, text.data(), text.size() - 1) != nvml::success) return "";
  return printable(text.data(), 100);
}

std::optional<double> value_of(const NvmlFieldValue& field) {
  if (field.result != nvml::success) return std::nullopt;
  if (field.type == 0) return field.value.real;
  if (field.type == 1 || field.type == 5) return field.value.small;
  return static_cast<double>(field.value.large);
}

NvmlFieldValue field_of(std::uint32_t id, std::uint32_t scope) {
  NvmlFieldValue out{};
  out.field = id;
  out.scope = scope;
  return out;
}

std::string remote_of(const NvmlApi& api, NvmlDevice device, std::uint32_t link) {
  const auto pci = ask<NvmlPciInfo>(api.link_remote, device, link);
  return pci ? pci_address(printable(pci->id.data(), 32)) : "";
}

// Which of NVML's errors speak of the hardware, and which of the caller's surroundings.
Class class_of(int code) {
  const bool hardware = code == nvml::driver_not_loaded || code == nvml::gpu_is_lost ||
                        code == nvml::reset_required || code == nvml::driver_mismatch;
  return hardware ? Class::broken : Class::untested;
}

// One call for all links and the chip-to-chip link. Rates come in MB/s.
void read_links(const NvmlApi& api, NvmlDevice device, Readings& out) {
  if (api.fields == nullptr) return;
  std::vector<NvmlFieldValue> fields{field_of(nvml::field_link_count, 0), field_of(nvml::field_c2c_count, 0),
                                     field_of(nvml::field_c2c_speed, 0)};
  const std::size_t head = fields.size();
  for (std::uint32_t link = 0; link < most_links; ++link) {
    fields.push_back(field_of(nvml::field_link_state, link));
    fields.push_back(field_of(nvml::field_link_speed, link));
  }
  if (api.fields(device, static_cast<int>(fields.size()), fields.data()) != nvml::success) return;
  out.c2c_links = static_cast<std::uint32_t>(value_of(fields[1]).value_or(0));
  out.c2c_rate = value_of(fields[2]).value_or(0) / 1000;
  const auto count = std::min(most_links, static_cast<std::uint32_t>(value_of(fields[0]).value_or(0)));
  for (std::uint32_t link = 0; link < count; ++link) {
    NvLink found;
    auto state = value_of(fields[head + 2 * link]);
    if (!state) {
      const auto asked = ask<std::uint32_t>(api.link_state, device, link);
      if (asked) state = *asked;
    }
    found.up = state.value_or(0) != 0;
    found.rate = value_of(fields[head + 2 * link + 1]).value_or(0) / 1000;
    if (found.up) found.remote = remote_of(api, device, link);
    out.links.push_back(found);
  }
}

void read_rows(const NvmlApi& api, NvmlDevice device, Readings& out) {
  std::uint32_t corrected = 0, wrong = 0, pending = 0, failed = 0;
  if (api.remapped_rows == nullptr ||
      api.remapped_rows(device, &corrected, &wrong, &pending, &failed) != nvml::success)
    return;
  out.remap_pending = pending != 0;
  out.remap_failed = failed != 0;
}

// Drivers before the third version of the structure take the second, which is the same but for its last
// member.
void read_fabric(const NvmlApi& api, NvmlDevice device, Readings& out) {
  if (api.fabric == nullptr) return;
  for (const auto version : {fabric_version_3, fabric_version_2}) {
    NvmlFabricInfo info{};
    info.version = version;
    if (api.fabric(device, &info) != nvml::success) continue;
    out.fabric_state = info.state;
    out.fabric_status = info.status;
    return;
  }
}

}  // namespace

Measured<NvmlApi> start_nvml(const std::string& path) {
  auto api = open_nvml(path);
  if (!api) return Failure{Class::untested, api.error()};
  const int code = api->init(nvml::no_flags);
  if (code == nvml::driver_mismatch)
    return Failure{Class::broken,
                   {"the loaded NVIDIA driver and its libraries differ in version (NVML error 18)", api->path,
                    "reload the nvidia modules or reboot the node"}};
  if (code != nvml::success)
    return Failure{class_of(code),
                   {fmt::format("NVML could not start: {}", api->error(code)), api->path,
                    "see nvidia-smi and the kernel's log"}};
  return *api;
}

std::string driver_version(const NvmlApi& api) {
  std::array<char, 128> text{};
  if (api.driver_version == nullptr || api.driver_version(text.data(), text.size() - 1) != nvml::success)
    return "";
  return printable(text.data(), 40);
}

Measured<std::vector<NvmlGpu>> list_gpus(const NvmlApi& api) {
  std::uint32_t count = 0;
  if (const int code = api.count(&count); code != nvml::success)
    return Failure{class_of(code),
                   {fmt::format("NVML could not count the GPUs: {}", api.error(code)), "", ""}};
  std::vector<NvmlGpu> out;
  for (std::uint32_t index = 0; index < count; ++index) {
    NvmlGpu gpu;
    if (const int code = api.by_index(index, &gpu.device); code != nvml::success) {
      if (code == 4) continue;  // no permission: another job's, hidden by the cgroup
      return Failure{class_of(code),
                     {fmt::format("NVML could not open GPU {}: {}", index, api.error(code)), "",
                      "see the kernel's log; reset the GPU or reboot the node"}};
    }
    gpu.known.index = index;
    gpu.known.minor = ask<std::uint32_t>(api.minor, gpu.device);
    gpu.known.uuid = text_of(api.uuid, gpu.device);
    gpu.known.name = text_of(api.name, gpu.device);
    if (const auto pci = ask<NvmlPciInfo>(api.pci, gpu.device))
      gpu.known.pci = pci_address(printable(pci->id.data(), 32));
    std::uint32_t now = 0, pending = 0;
    gpu.known.mig =
        api.mig_mode != nullptr && api.mig_mode(gpu.device, &now, &pending) == nvml::success && now != 0;
    out.push_back(gpu);
  }
  return out;
}

Readings read_gpu(const NvmlApi& api, NvmlDevice device) {
  Readings out;
  out.name = text_of(api.name, device);
  out.ecc_errors = ask<std::uint64_t>(api.ecc_errors, device, uncorrected, volatile_count);
  read_rows(api, device, out);
  read_links(api, device, out);
  out.pcie_width = ask<std::uint32_t>(api.pcie_width, device);
  out.most_pcie_width = ask<std::uint32_t>(api.most_pcie_width, device);
  out.most_pcie_generation = ask<std::uint32_t>(api.most_pcie_generation, device);
  out.memory_mhz = ask<std::uint32_t>(api.most_clock, device, memory_clock).value_or(0);
  out.memory_bits = ask<std::uint32_t>(api.memory_bus_width, device).value_or(0);
  read_fabric(api, device, out);
  out.processes = processes_on(api, device);
  return out;
}

std::uint64_t clock_reasons(const NvmlApi& api, NvmlDevice device) {
  if (const auto now = ask<std::uint64_t>(api.event_reasons, device)) return *now;
  return ask<std::uint64_t>(api.throttle_reasons, device).value_or(0);
}

std::vector<std::uint32_t> processes_on(const NvmlApi& api, NvmlDevice device) {
  std::array<NvmlProcessInfo, 64> found{};
  std::uint32_t count = found.size();
  std::vector<std::uint32_t> out;
  if (api.processes == nullptr || api.processes(device, &count, found.data()) != nvml::success) return out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(found[i].pid);
  return out;
}

}  // namespace nccl_check::engine::nccl
