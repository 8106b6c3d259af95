#include "tests/unit/doubles/support.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace nccl_check::doubles::testing {
namespace {

constexpr unsigned most_seconds = 60;

pid_t start(const std::string& host, const std::string& path, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(most_seconds);
  ::setenv("NCCL_CHECK_SIMULATION", path.c_str(), 1);
  ::setenv("NCCL_CHECK_SIMULATED_HOST", host.c_str(), 1);
  try {
    body();
  } catch (const std::exception& failed) {
    ADD_FAILURE() << failed.what();
  }
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

struct DescriptionFile {
  explicit DescriptionFile(const std::string& text)
      : path(::testing::TempDir() + "simulation-" + std::to_string(::getpid())) {
    std::ofstream(path) << text;
  }
  ~DescriptionFile() { ::unlink(path.c_str()); }
  DescriptionFile(const DescriptionFile&) = delete;
  DescriptionFile& operator=(const DescriptionFile&) = delete;
  std::string path;
};

}  // namespace

int run_in_child(const std::string& description, const std::function<void()>& body) {
  const DescriptionFile file(description);
  int status = 0;
  ::waitpid(start("n0", file.path, body), &status, 0);
  return status;
}

void in_child(const std::string& description, const std::function<void()>& body) {
  EXPECT_EQ(run_in_child(description, body), 0) << "the child's wait status";
}

void on_hosts(int hosts, const std::string& description, const std::function<void(int)>& body) {
  const DescriptionFile file(description);
  std::vector<pid_t> children;
  for (int host = 0; host < hosts; ++host) {
    children.push_back(start("n" + std::to_string(host), file.path, [&] { body(host); }));
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "a host's wait status";
  }
}

void* open_double(const char* name) {
  const std::string path = std::string(NCCL_CHECK_DOUBLES) + "/" + name;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return library;
}

void* cuda() {
  static void* const library = open_double("libcuda.so.1");
  return library;
}
void* nccl() {
  static void* const library = open_double("libnccl.so.2");
  return library;
}
void* nvml() {
  static void* const library = open_double("libnvidia-ml.so.1");
  return library;
}

namespace {
void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(what) + ": CUDA error " + std::to_string(result));
}
}  // namespace

Gpu::Gpu(int number) : device(number) {
  must(CUDA(cuInit)(0), "cuInit");
  must(CUDA(cuDevicePrimaryCtxRetain)(&context, device), "cuDevicePrimaryCtxRetain");
  use();
  must(CUDA(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  must(CUDA(cuModuleLoadData)(&module_, kernels::image().data()), "cuModuleLoadData");
}

void Gpu::use() const {
  must(CUDA(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
}

CUdeviceptr Gpu::allocate(std::size_t bytes) const {
  CUdeviceptr address = 0;
  must(CUDA(cuMemAlloc_v2)(&address, bytes), "cuMemAlloc");
  return address;
}

CUresult Gpu::launch_raw(const char* kernel, void* arguments, CUstream on) const {
  CUfunction function = nullptr;
  must(CUDA(cuModuleGetFunction)(&function, module_, kernel), kernel);
  void* parameters[] = {arguments};
  return CUDA(cuLaunchKernel)(function, 132, 1, 1, 256, 1, 1, 0, on, parameters, nullptr);
}

CUresult Gpu::fill(CUdeviceptr data, std::uint64_t count, kernels::Type type, kernels::Reduction reduction,
                   int rank, int ranks) const {
  return launch("nccl_check_fill",
                kernels::FillArguments{reinterpret_cast<void*>(data), count, 0, 7, type, reduction,
                                       static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(ranks)});
}

std::uint64_t Gpu::verify(CUdeviceptr data, std::uint64_t count, kernels::Type type,
                          kernels::Reduction reduction, std::uint32_t rank, int ranks) const {
  const CUdeviceptr found = allocate(sizeof(kernels::Mismatches));
  must(CUDA(cuMemsetD8Async)(found, 0, sizeof(kernels::Mismatches), stream), "cuMemsetD8Async");
  must(launch("nccl_check_verify",
              kernels::VerifyArguments{reinterpret_cast<const void*>(data), count, 0, 7, type, reduction,
                                       rank, static_cast<std::uint32_t>(ranks),
                                       reinterpret_cast<kernels::Mismatches*>(found)}),
       "verify");
  must(synchronize(), "cuStreamSynchronize");
  kernels::Mismatches mismatches{};
  must(CUDA(cuMemcpyDtoH_v2)(&mismatches, found, sizeof mismatches), "cuMemcpyDtoH");
  must(CUDA(cuMemFree_v2)(found), "cuMemFree");
  return mismatches.wrong;
}

CUresult Gpu::synchronize() const {
  return CUDA(cuStreamSynchronize)(stream);
}

CUevent Gpu::event() const {
  CUevent made = nullptr;
  must(CUDA(cuEventCreate)(&made, CU_EVENT_DEFAULT), "cuEventCreate");
  must(CUDA(cuEventRecord)(made, stream), "cuEventRecord");
  return made;
}

double milliseconds(CUevent start, CUevent end) {
  float elapsed = 0;
  must(CUDA(cuEventSynchronize)(end), "cuEventSynchronize");
  must(CUDA(cuEventElapsedTime_v2)(&elapsed, start, end), "cuEventElapsedTime");
  return static_cast<double>(elapsed);
}

ncclResult_t poll(ncclComm_t comm, ncclResult_t first, int most_ms) {
  ncclResult_t state = first;
  for (int waited = 0; state == ncclInProgress && waited < most_ms; ++waited) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (NCCL(ncclCommGetAsyncError)(comm, &state) != ncclSuccess)
      throw std::runtime_error("ncclCommGetAsyncError");
  }
  return state;
}

ncclResult_t connect(ncclComm_t& comm, int ranks, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return poll(comm, NCCL(ncclCommInitRankConfig)(&comm, ranks, id, rank, &config));
}

void with_ranks(int first, int here, int ranks, const ncclUniqueId& id,
                const std::function<void(Rank&)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < here; ++i) {
    threads.emplace_back([&, i] {
      try {
        Rank rank{first + i, ranks, Gpu(i), nullptr};
        EXPECT_EQ(connect(rank.comm, ranks, id, rank.rank), ncclSuccess);
        body(rank);
      } catch (const std::exception& failed) {
        ADD_FAILURE() << failed.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

void with_ranks(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id{};
  ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess);
  with_ranks(0, ranks, ranks, id, body);
}

}  // namespace nccl_check::doubles::testing
