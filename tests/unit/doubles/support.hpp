#pragma once
// Drives the stand-ins as the engine does: opened at run time, one thread a GPU. A description is read once a
// process, so every case runs in a process of its own.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/image.hpp"
#include "kernels/kernels.hpp"

namespace nccl_check::doubles::testing {

// Runs it in a child with this description; its failed expectations are failures here. Returns the wait
// status.
int run_in_child(const std::string& description, const std::function<void()>& body);
void in_child(const std::string& description, const std::function<void()>& body);
// Several hosts at once, named n0, n1, ...; each gets its index. `shared` memory is theirs together.
void on_hosts(int hosts, const std::string& description, const std::function<void(int)>& body);

void* open_double(const char* name);  // throws where it can't be opened
template <class Function>
Function* symbol(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
  return reinterpret_cast<Function*>(found);
}

// A function of the driver by its name with _v2, and NCCL's.
#define CUDA(function)                                                                               \
  ::nccl_check::doubles::testing::symbol<decltype(function)>(::nccl_check::doubles::testing::cuda(), \
                                                             #function)
#define NCCL(function)                                                                               \
  ::nccl_check::doubles::testing::symbol<decltype(function)>(::nccl_check::doubles::testing::nccl(), \
                                                             #function)
void* cuda();
void* nccl();
void* nvml();

#define CU_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)

// One GPU, by the thread that made it: context, stream, module.
class Gpu {
 public:
  explicit Gpu(int device);
  void use() const;  // in another thread
  CUdeviceptr allocate(std::size_t bytes) const;
  template <class Arguments>
  CUresult launch(const char* kernel, const Arguments& arguments, CUstream on = nullptr) const {
    Arguments copy = arguments;
    return launch_raw(kernel, &copy, on == nullptr ? stream : on);
  }
  CUresult fill(CUdeviceptr data, std::uint64_t count, kernels::Type type, kernels::Reduction reduction,
                int rank, int ranks) const;
  // How many elements are wrong.
  std::uint64_t verify(CUdeviceptr data, std::uint64_t count, kernels::Type type,
                       kernels::Reduction reduction, std::uint32_t rank, int ranks) const;
  CUresult synchronize() const;
  CUevent event() const;  // recorded on the stream now

  int device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;

 private:
  CUresult launch_raw(const char* kernel, void* arguments, CUstream on) const;
  CUmodule module_ = nullptr;
};
double milliseconds(CUevent start, CUevent end);

// A non-blocking communicator that is polled until it is made; what came of it.
ncclResult_t connect(ncclComm_t& comm, int ranks, const ncclUniqueId& id, int rank);
ncclResult_t poll(ncclComm_t comm, ncclResult_t first,
                  int most_ms = 5000);  // until it is no longer in progress

// `ranks` threads, from `first` on, each with its GPU and communicator.
struct Rank {
  int rank, ranks;
  Gpu gpu;
  ncclComm_t comm;
};
void with_ranks(int first, int here, int ranks, const ncclUniqueId& id,
                const std::function<void(Rank&)>& body);
void with_ranks(int ranks, const std::function<void(Rank&)>& body);  // all in this process

}  // namespace nccl_check::doubles::testing
