// NVML: NVLinks, fields and the fabric.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/identity.hpp"
#include "tests/doubles/nvml/device.hpp"

using namespace nccl_check::doubles;
using namespace nccl_check::doubles::nvml;

namespace {

constexpr std::uint32_t unsigned_int = 1;  // NVML's name for a value's type
constexpr unsigned most_links = 18;
constexpr unsigned switches = 4;

bool is_up(int gpu, unsigned link) {
  return standing(Kind::nvlinks_down, {.gpu = gpu, .link = static_cast<int>(link)}) == nullptr;
}

Return link_of(Device* device, unsigned link, int& gpu) {
  if (const Return result = gpu_of(device, gpu)) return result;
  if (link >= most_links) return invalid_argument;
  return link < static_cast<unsigned>(description()->host.nvlinks) ? success : not_supported;
}

bool remap(int gpu, const char* reason) {
  const Fault* fault = standing(Kind::row_remap, {.gpu = gpu});
  return fault != nullptr && (reason == nullptr || fault->reason == reason);
}

// False: this GPU has no such field.
bool read_field(int gpu, const FieldValue& field, std::uint32_t& number) {
  const Host& host = description()->host;
  const bool per_link = field.field == nvlink_speed || field.field == nvlink_state;
  if (per_link && field.scope >= static_cast<unsigned>(host.nvlinks)) return false;
  switch (field.field) {
    case nvlink_speed_common:
      number = static_cast<std::uint32_t>(host.nvlink_speed);
      return host.nvlinks > 0;
    case nvlink_count:
      number = static_cast<std::uint32_t>(host.nvlinks);
      return true;
    case remapped_correctable:
      number = 0;
      return true;
    case remapped_uncorrectable:
      number = remap(gpu, nullptr) ? 1 : 0;
      return true;
    case remap_pending:
      number = remap(gpu, "pending") ? 1 : 0;
      return true;
    case remap_failure:
      number = remap(gpu, "failure") ? 1 : 0;
      return true;
    case nvlink_speed:
      number = is_up(gpu, field.scope) ? static_cast<std::uint32_t>(host.nvlink_speed) : 0;
      return true;
    case nvlink_state:
      number = is_up(gpu, field.scope) ? 1 : 0;
      return true;
    case c2c_link_count:
      number = 0;
      return true;
    default:
      return false;
  }
}

bool fabric_not_ready() {
  const auto& all = description()->faults;
  return std::any_of(all.begin(), all.end(),
                     [](const Fault& f) { return f.kind == Kind::cuda_error && f.code == 802; });
}

}  // namespace

NCCL_CHECK_NVML Return nvmlDeviceGetNvLinkState(Device* device, unsigned link, int* active) {
  int gpu = -1;
  if (const Return result = link_of(device, link, gpu)) return result;
  if (active == nullptr) return invalid_argument;
  *active = is_up(gpu, link) ? 1 : 0;
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetNvLinkCapability(Device* device, unsigned link, int, unsigned* value) {
  int gpu = -1;
  if (const Return result = link_of(device, link, gpu)) return result;
  if (value == nullptr) return invalid_argument;
  *value = 1;
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device* device, unsigned link, PciInfo* info) {
  int gpu = -1;
  if (const Return result = link_of(device, link, gpu)) return result;
  if (info == nullptr) return invalid_argument;
  if (!is_up(gpu, link)) return not_supported;
  *info = {};
  info->bus = 0xe0 + link % switches;
  info->device_id = 0x22a310de;  // a switch
  std::snprintf(info->legacy_address, sizeof info->legacy_address, "0000:%02X:00.0", info->bus & 0xffU);
  std::snprintf(info->address, sizeof info->address, "00000000:%02X:00.0", info->bus & 0xffU);
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetFieldValues(Device* device, int count, FieldValue* values) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  if (values == nullptr || count < 1) return invalid_argument;
  for (int i = 0; i < count; ++i) {
    FieldValue& value = values[i];
    value.timestamp = 1;
    value.latency = 0;
    value.type = unsigned_int;
    value.value.large = 0;
    value.result = read_field(gpu, value, value.value.number) ? success : not_supported;
  }
  return success;
}

NCCL_CHECK_NVML Return nvmlDeviceGetGpuFabricInfoV(Device* device, FabricInfo* info) {
  int gpu = -1;
  if (const Return result = gpu_of(device, gpu)) return result;
  if (info == nullptr) return invalid_argument;
  if (info->version != fabric_version_2 && info->version != fabric_version_3) return argument_version;
  std::memset(info->cluster, 0, sizeof info->cluster);
  info->status = success;
  info->clique = 0;
  const int there = fabric_not_ready() ? 2 : 3;
  info->state = static_cast<unsigned char>(description()->host.nvlinks > 0 ? there : 0);
  info->health_mask = 0xaa;  // two bits each for what can be wrong; 2: it is not
  if (info->version == fabric_version_3) info->health_summary = 1;
  return success;
}
