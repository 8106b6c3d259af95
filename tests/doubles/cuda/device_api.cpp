// Devices, by the driver's interface.
#include <cuda.h>

#include <cstring>
#include <map>

#include "tests/doubles/cuda/state.hpp"
#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/identity.hpp"

using namespace nccl_check::doubles;

namespace {

std::map<CUdevice_attribute, int> attributes(int gpu) {
  const Host& host = description()->host;
  const int major = static_cast<int>(host.compute_capability);
  const bool exclusive = standing(Kind::exclusive_process, {.gpu = gpu}) != nullptr;
  return {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, static_cast<int>(host.compute_capability * 10.001) % 10},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, host.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 60 << 20},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, host.memory_clock * 1000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, host.memory_bus_width},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
       exclusive ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS : CU_COMPUTEMODE_DEFAULT},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
      {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, static_cast<int>(pci_bus(gpu))},
      {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
      {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
      {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu * host.numa_nodes / (host.gpus > 0 ? host.gpus : 1)},
      {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0}};
}

CUresult copy_text(const std::string& text, char* to, int room) {
  if (to == nullptr || room <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(to, text.c_str(), static_cast<std::size_t>(room));
  to[room - 1] = '\0';
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuInit(unsigned flags) {
  return flags == 0 ? initialize() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (description() == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  *version = description()->host.driver;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult result = ready()) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Context* context = nullptr;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = context_of(ordinal, context)) return result;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int room, CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  return copy_text(device_name(context->gpu), name, room);
}

CUresult cuDeviceGetUuid_v2(CUuuid* id, CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto bytes = uuid(context->gpu);
  std::memcpy(id->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  const auto all = attributes(context->gpu);
  const auto found = all.find(attribute);
  if (value == nullptr || found == all.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = description()->host.memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int room, CUdevice device) {
  Context* context = nullptr;
  if (const CUresult result = context_of(device, context)) return result;
  return copy_text(pci_address(context->gpu), text, room);
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* address) {
  if (const CUresult result = ready()) return result;
  if (device == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int gpu = number_of(address);
  for (CUdevice candidate = 0; candidate < device_count(); ++candidate) {
    Context* context = nullptr;
    if (context_of(candidate, context) != CUDA_SUCCESS || context->gpu != gpu) continue;
    *device = candidate;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  Context *one = nullptr, *other = nullptr;
  if (const CUresult result = context_of(device, one)) return result;
  if (const CUresult result = context_of(peer, other)) return result;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device == peer ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer) {
  Context *one = nullptr, *other = nullptr;
  if (const CUresult result = context_of(device, one)) return result;
  if (const CUresult result = context_of(peer, other)) return result;
  if (value == nullptr || device == peer)
    return device == peer ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  const bool linked = description()->host.nvlinks > 0;
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = linked ? 0 : 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = linked ? 1 : 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
