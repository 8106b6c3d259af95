#include "driver.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "kernels/image.hpp"

namespace nccl_check::kernels {
namespace {

[[noreturn]] void give_up(const std::string& text) {
  std::fprintf(stderr, "nccl_check_kernel_check: %s\n", text.c_str());
  std::exit(1);
}

// cuda.h's macros name the current version of each function; this takes that name.
#define NAME_OF(function) NAME_TEXT(function)
#define NAME_TEXT(function) #function
#define DRIVER(function) driver_function<decltype(&function)>(NAME_OF(function))

template <class Function>
Function driver_function(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) give_up(std::string("no CUDA driver: ") + dlerror());
  void* found = dlsym(library, name);
  if (found == nullptr) give_up(std::string("libcuda.so.1 has no ") + name);
  return reinterpret_cast<Function>(found);
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  DRIVER(cuGetErrorString)(result, &text);
  give_up(std::string(what) + ": " + std::to_string(result) + " " + (text == nullptr ? "" : text));
}
#define MUST(function, ...) must(DRIVER(function)(__VA_ARGS__), #function)

}  // namespace

Driver::Driver() {
  CUcontext context = nullptr;
  MUST(cuInit, 0);
  MUST(cuDeviceGet, &device_, 0);
  MUST(cuDevicePrimaryCtxRetain, &context, device_);
  MUST(cuCtxSetCurrent, context);
  if (image().empty()) give_up("this build was made without nvcc");
  MUST(cuModuleLoadData, &module_, image().data());
  MUST(cuEventCreate, &begin_, CU_EVENT_DEFAULT);
  MUST(cuEventCreate, &end_, CU_EVENT_DEFAULT);
}

std::string Driver::device_name() const {
  char name[256] = {};
  MUST(cuDeviceGetName, name, sizeof name, device_);
  return name;
}
unsigned Driver::multiprocessors() const {
  int count = 0;
  MUST(cuDeviceGetAttribute, &count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
  return static_cast<unsigned>(count);
}
CUdeviceptr Driver::allocate(std::size_t bytes) {
  CUdeviceptr memory = 0;
  MUST(cuMemAlloc, &memory, bytes);
  return memory;
}
void Driver::release(CUdeviceptr memory) {
  MUST(cuMemFree, memory);
}
void Driver::set(CUdeviceptr memory, unsigned char byte, std::size_t bytes) {
  if (bytes != 0) MUST(cuMemsetD8, memory, byte, bytes);
}
void Driver::put(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (bytes != 0) MUST(cuMemcpyHtoD, to, from, bytes);
}
void Driver::get(void* to, CUdeviceptr from, std::size_t bytes) {
  if (bytes != 0) MUST(cuMemcpyDtoH, to, from, bytes);
}
std::uint32_t* Driver::host_flag() {
  void* memory = nullptr;
  MUST(cuMemHostAlloc, &memory, sizeof(std::uint32_t), CU_MEMHOSTALLOC_DEVICEMAP);
  return static_cast<std::uint32_t*>(memory);
}
CUdeviceptr Driver::device_address(void* host) {
  CUdeviceptr address = 0;
  MUST(cuMemHostGetDevicePointer, &address, host, 0);
  return address;
}
void Driver::start(const char* kernel, void* arguments, unsigned grid, unsigned block) {
  static std::map<std::string, CUfunction> known;
  CUfunction& function = known[kernel];
  if (function == nullptr) MUST(cuModuleGetFunction, &function, module_, kernel);
  void* list[] = {arguments};
  must(DRIVER(cuLaunchKernel)(function, grid, 1, 1, block, 1, 1, 0, nullptr, list, nullptr), kernel);
}
void Driver::wait() {
  MUST(cuCtxSynchronize, );
}
float Driver::time_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  begin_time();
  MUST(cuMemcpyDtoDAsync, to, from, bytes, nullptr);
  return end_time();
}
void Driver::begin_time() {
  MUST(cuEventRecord, begin_, nullptr);
}
float Driver::end_time() {
  float milliseconds = 0;
  MUST(cuEventRecord, end_, nullptr);
  MUST(cuEventSynchronize, end_);
  MUST(cuEventElapsedTime, &milliseconds, begin_, end_);
  return milliseconds;
}

}  // namespace nccl_check::kernels
