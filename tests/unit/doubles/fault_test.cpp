// Every fault can be seen by who drives the libraries, where it was asked for and only there.
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>

#include "tests/unit/doubles/support.hpp"

namespace nccl_check::doubles::testing {
namespace {

using kernels::Reduction;
using kernels::Type;

constexpr std::uint64_t bytes = 1U << 20U;
void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

std::string exact(const std::string& faults) {
  return "noise = 0\nlatency = 0\n" + faults;
}

// GB/s of what the GPU's stream does.
double rate(const Gpu& gpu, const std::function<CUresult()>& work) {
  const CUevent start = gpu.event();
  EXPECT_EQ(work(), CUDA_SUCCESS);
  return bytes / milliseconds(start, gpu.event()) / 1e6;
}

ncclResult_t reduce(const Rank& rank, CUdeviceptr data) {
  return NCCL(ncclAllReduce)(pointer(data), pointer(data), bytes / 4, ncclFloat32, ncclSum, rank.comm,
                             rank.gpu.stream);
}

double bus_bandwidth(const Rank& rank, CUdeviceptr data) {
  const CUevent start = rank.gpu.event();
  EXPECT_EQ(reduce(rank, data), ncclSuccess);
  return 2.0 * (rank.ranks - 1) / rank.ranks * bytes / milliseconds(start, rank.gpu.event()) / 1e6;
}

// False: it still hangs after a while.
bool returns(const std::function<void()>& call) {
  cuda();  // opening it takes its time too
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    call();
    const bool told = ::write(ends[1], "", 1) == 1;
    ::_exit(told ? 0 : 1);
  }
  pollfd word{ends[0], POLLIN, 0};
  const bool returned = ::poll(&word, 1, 400) == 1;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  return returned;
}

TEST(Fault, SlowMemoryOfOneGpu) {
  in_child(exact("[fault slow_memory]\ngpu = 1\nfactor = 0.5\n"), [] {
    for (const int device : {0, 1}) {
      const Gpu gpu(device);
      const CUdeviceptr data = gpu.allocate(bytes);
      EXPECT_NEAR(rate(gpu, [&] { return CUDA(cuMemsetD8Async)(data, 0, bytes, gpu.stream); }),
                  device == 1 ? 2100 : 4200, 3);
    }
  });
}

TEST(Fault, SlowHostLinkAfterTwoCopies) {
  in_child(exact("[fault slow_host_link]\ngpu = 0\nfactor = 0.2\nafter = 2\n"), [] {
    const Gpu gpu(0);
    const CUdeviceptr data = gpu.allocate(bytes);
    void* host = nullptr;
    CU_OK(CUDA(cuMemHostAlloc)(&host, bytes, 0));
    for (const double expected : {55, 55, 11, 11}) {
      EXPECT_NEAR(rate(gpu, [&] { return CUDA(cuMemcpyHtoDAsync_v2)(data, host, bytes, gpu.stream); }),
                  expected, 0.1);
    }
  });
}

TEST(Fault, NarrowPcieIsSlowToo) {
  in_child(exact("[fault pcie_width]\ngpu = 0\nvalue = 8\n"), [] {
    const Gpu gpu(0);
    const CUdeviceptr data = gpu.allocate(bytes);
    void* host = nullptr;
    CU_OK(CUDA(cuMemHostAlloc)(&host, bytes, 0));
    EXPECT_NEAR(rate(gpu, [&] { return CUDA(cuMemcpyHtoDAsync_v2)(data, host, bytes, gpu.stream); }), 27.5,
                0.1);
  });
}

TEST(Fault, SlowLinkBetweenTwoGpusBothWays) {
  in_child(
      exact("[fault slow_link]\ngpu = 0\npeer = 2\nfactor = 0.5\n[fault nvlinks_down]\ngpu = 3\nlink = 0\n"),
      [] {
        std::vector<Gpu> gpus;
        std::vector<CUdeviceptr> data;
        for (int device = 0; device < 4; ++device) {
          gpus.emplace_back(device);
          data.push_back(gpus.back().allocate(bytes));
        }
        const auto between = [&](std::size_t to, std::size_t from) {
          gpus[from].use();
          return rate(gpus[from], [&] {
            return CUDA(cuMemcpyPeerAsync)(data[to], gpus[to].context, data[from], gpus[from].context, bytes,
                                           gpus[from].stream);
          });
        };
        EXPECT_NEAR(between(0, 1), 370.8, 0.5);
        EXPECT_NEAR(between(0, 2), 185.4, 0.5);
        EXPECT_NEAR(between(2, 0), 185.4, 0.5);
        EXPECT_NEAR(between(1, 3), 350.2, 0.5);
      });
}

TEST(Fault, SlowCollectives) {
  in_child(exact("[fault slow_collectives]\ngpu = 1\nfactor = 0.25\nafter = 1\n"), [] {
    with_ranks(4, [](Rank& rank) {
      const CUdeviceptr data = rank.gpu.allocate(bytes);
      ASSERT_EQ(poll(rank.comm, reduce(rank, data)), ncclSuccess);
      EXPECT_NEAR(bus_bandwidth(rank, data), 92.7, 0.2);
    });
  });
}

ncclUniqueId* shared_id() {
  static void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<ncclUniqueId*>(page);
}

// Two hosts of two GPUs. The id's byte 127 says that it is there.
void two_hosts(const std::string& description, const std::function<void(int, Rank&)>& body) {
  ncclUniqueId* const id = shared_id();
  std::memset(id, 0, sizeof *id);
  on_hosts(2, description, [&](int host) {
    if (host == 0) {
      ncclUniqueId made{};
      ASSERT_EQ(NCCL(ncclGetUniqueId)(&made), ncclSuccess);
      std::memcpy(id->internal, made.internal, 127);
      __atomic_store_n(&id->internal[127], '\1', __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&id->internal[127], __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ncclUniqueId own = *id;
    own.internal[127] = 0;
    with_ranks(host * 2, 2, 4, own, [&](Rank& rank) { body(host, rank); });
  });
}

TEST(Fault, SlowNicShowsInCollectivesAndItsRailAlone) {
  two_hosts(exact("[fault slow_nic]\nhost = n1\ngpu = 1\nfactor = 0.5\n"), [](int host, Rank& rank) {
    const CUdeviceptr data = rank.gpu.allocate(bytes), landing = rank.gpu.allocate(bytes);
    ASSERT_EQ(poll(rank.comm, reduce(rank, data)), ncclSuccess);
    EXPECT_NEAR(bus_bandwidth(rank, data), 48, 0.1);  // two NICs, both at the slower one's 24
    const auto exchange = [&] {
      const int partner = (rank.rank + 2) % 4;
      NCCL(ncclGroupStart)();
      NCCL(ncclSend)(pointer(data), bytes / 4, ncclFloat32, partner, rank.comm, rank.gpu.stream);
      NCCL(ncclRecv)(pointer(landing), bytes / 4, ncclFloat32, partner, rank.comm, rank.gpu.stream);
      return poll(rank.comm, NCCL(ncclGroupEnd)());
    };
    ASSERT_EQ(exchange(), ncclSuccess);
    const CUevent start = rank.gpu.event();
    ASSERT_EQ(exchange(), ncclSuccess);
    EXPECT_NEAR(bytes / milliseconds(start, rank.gpu.event()) / 1e6, rank.gpu.device == 1 ? 24 : 48, 0.1)
        << host;
  });
}

TEST(Fault, SocketThoughThereIsInfiniBand) {
  two_hosts(exact("network = Socket\n"), [](int, Rank& rank) {
    const CUdeviceptr data = rank.gpu.allocate(bytes);
    ASSERT_EQ(poll(rank.comm, reduce(rank, data)), ncclSuccess);
    EXPECT_NEAR(bus_bandwidth(rank, data), 2.6, 0.01);
  });
}

TEST(Fault, HangInInitAndContext) {
  const auto try_init = [](bool context_too) {
    return [context_too] {
      CUcontext context = nullptr;
      CUDA(cuInit)(0);
      if (context_too) CUDA(cuDevicePrimaryCtxRetain)(&context, 2);
    };
  };
  in_child("[fault hang]\nstage = init\n", [&] { EXPECT_FALSE(returns(try_init(false))); });
  in_child("[fault hang]\nstage = context\ngpu = 2\n", [&] {
    EXPECT_TRUE(returns(try_init(false)));
    EXPECT_FALSE(returns(try_init(true)));
  });
  in_child("[fault hang]\nstage = context\ngpu = 1\n", [&] { EXPECT_TRUE(returns(try_init(true))); });
}

TEST(Fault, HangInCommInitStaysInProgressAndCanBeAborted) {
  in_child("[fault hang]\nstage = comm_init\ngpu = 1\n", [] {
    ncclUniqueId id{};
    ncclComm_t comms[2];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess);
    for (int i = 0; i < 2; ++i) {
      const Gpu gpu(i);
      ASSERT_EQ(NCCL(ncclCommInitRankConfig)(&comms[i], 2, id, i, &config), ncclInProgress);
    }
    for (const ncclComm_t comm : comms) EXPECT_EQ(poll(comm, ncclInProgress, 100), ncclInProgress);
    for (const ncclComm_t comm : comms) EXPECT_EQ(NCCL(ncclCommAbort)(comm), ncclSuccess);
  });
}

TEST(Fault, HangInACollectiveEndsByAbort) {
  in_child("[fault hang]\nstage = collective\ngpu = 1\nafter = 1\n", [] {
    with_ranks(2, [](Rank& rank) {
      const CUdeviceptr data = rank.gpu.allocate(bytes);
      ASSERT_EQ(poll(rank.comm, reduce(rank, data)), ncclSuccess);
      CU_OK(rank.gpu.synchronize());
      ASSERT_EQ(reduce(rank, data), ncclSuccess);
      const CUevent end = rank.gpu.event();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(CUDA(cuEventQuery)(end), CUDA_ERROR_NOT_READY);
      EXPECT_EQ(CUDA(cuStreamQuery)(rank.gpu.stream), CUDA_ERROR_NOT_READY);
      EXPECT_EQ(NCCL(ncclCommAbort)(rank.comm), ncclSuccess);
      EXPECT_EQ(rank.gpu.synchronize(), CUDA_SUCCESS);
    });
  });
}

TEST(Fault, HangInAKernelIsForGood) {
  in_child("[fault hang]\nstage = kernel\n", [] {
    const Gpu gpu(0);
    const CUdeviceptr data = gpu.allocate(bytes);
    CU_OK(gpu.fill(data, 16, Type::int8, Reduction::sum, 0, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(CUDA(cuStreamQuery)(gpu.stream), CUDA_ERROR_NOT_READY);
  });
}

TEST(Fault, CrashInEachStage) {
  for (const char* stage : {"init", "context", "allocate", "kernel", "copy", "comm_init", "collective"}) {
    const int status = run_in_child(std::string("[fault crash]\nstage = ") + stage + "\n", [] {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into an exit
      with_ranks(1, [](Rank& rank) {
        const CUdeviceptr data = rank.gpu.allocate(bytes);
        rank.gpu.fill(data, 16, Type::int8, Reduction::sum, 0, 1);
        CUDA(cuMemcpyDtoDAsync_v2)(data, data + 512, 512, rank.gpu.stream);
        rank.gpu.synchronize();
        poll(rank.comm, reduce(rank, data));
        rank.gpu.synchronize();
      });
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << stage << ": " << status;
  }
}

TEST(Fault, DriverErrorsAtTheirStage) {
  in_child("[fault cuda_error]\nstage = init\ncode = 802\n",
           [] { EXPECT_EQ(CUDA(cuInit)(0), CUDA_ERROR_SYSTEM_NOT_READY); });
  in_child("[fault cuda_error]\nstage = context\ncode = 999\ngpu = 3\n", [] {
    CUcontext context = nullptr;
    CU_OK(CUDA(cuInit)(0));
    CU_OK(CUDA(cuDevicePrimaryCtxRetain)(&context, 2));
    EXPECT_EQ(CUDA(cuDevicePrimaryCtxRetain)(&context, 3), CUDA_ERROR_UNKNOWN);
  });
  in_child("[fault cuda_error]\nstage = allocate\ncode = 2\nafter = 1\n", [] {
    const Gpu gpu(0);
    CUdeviceptr address = 0;
    CU_OK(CUDA(cuMemAlloc_v2)(&address, 512));
    EXPECT_EQ(CUDA(cuMemAlloc_v2)(&address, 512), CUDA_ERROR_OUT_OF_MEMORY);
  });
  in_child("[fault cuda_error]\nstage = kernel\ncode = 214\n", [] {
    const Gpu gpu(0);
    const CUdeviceptr data = gpu.allocate(bytes);
    CU_OK(gpu.fill(data, 16, Type::int8, Reduction::sum, 0, 1));
    EXPECT_EQ(gpu.synchronize(), CUDA_ERROR_ECC_UNCORRECTABLE);
    EXPECT_EQ(CUDA(cuMemsetD8Async)(data, 0, 16, gpu.stream), CUDA_ERROR_ECC_UNCORRECTABLE);  // from now on
  });
}

TEST(Fault, FlippedBitsAreWrongData) {
  in_child("[fault corrupt]\nstage = memory\nafter = 1\n", [] {
    const Gpu gpu(0);
    const CUdeviceptr data = gpu.allocate(bytes);
    CU_OK(gpu.fill(data, bytes / 4, Type::int32, Reduction::sum, 0, 1));
    CU_OK(gpu.fill(data, bytes / 4, Type::int32, Reduction::sum, 0, 1));
    EXPECT_EQ(gpu.verify(data, bytes / 4, Type::int32, Reduction::sum, 0, 1), 1U);
  });
  in_child("[fault corrupt]\nstage = peer_copy\ngpu = 1\npeer = 0\n", [] {
    const Gpu other(1);
    const CUdeviceptr there = other.allocate(bytes);
    const Gpu gpu(0);
    const CUdeviceptr here = gpu.allocate(bytes), back = gpu.allocate(bytes);
    CU_OK(gpu.fill(here, bytes / 4, Type::int32, Reduction::sum, 0, 1));
    CU_OK(CUDA(cuMemcpyAsync)(back, here, bytes, gpu.stream));
    EXPECT_EQ(gpu.verify(back, bytes / 4, Type::int32, Reduction::sum, 0, 1), 0U);
    CU_OK(CUDA(cuMemcpyAsync)(there, here, bytes, gpu.stream));
    CU_OK(gpu.synchronize());
    other.use();
    EXPECT_EQ(other.verify(there, bytes / 4, Type::int32, Reduction::sum, 0, 1), 1U);
  });
  in_child("[fault corrupt]\nstage = collective\ngpu = 1\n", [] {
    with_ranks(2, [](Rank& rank) {
      const CUdeviceptr data = rank.gpu.allocate(bytes);
      CU_OK(rank.gpu.fill(data, bytes / 4, Type::float32, Reduction::sum, rank.rank, 2));
      ASSERT_EQ(poll(rank.comm, reduce(rank, data)), ncclSuccess);
      EXPECT_EQ(rank.gpu.verify(data, bytes / 4, Type::float32, Reduction::sum, kernels::all_ranks, 2),
                static_cast<std::uint64_t>(rank.rank));
    });
  });
}

TEST(Fault, NcclErrorsArriveLaterWithTheirText) {
  in_child(
      "[fault nccl_error]\nstage = collective\ncode = 6\ngpu = 0\ntext = NET/IB: got completion with error "
      "12\n",
      [] {
        with_ranks(2, [](Rank& rank) {
          const CUdeviceptr data = rank.gpu.allocate(bytes);
          poll(rank.comm, reduce(rank, data));
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          ncclResult_t state = ncclSuccess;
          ASSERT_EQ(NCCL(ncclCommGetAsyncError)(rank.comm, &state), ncclSuccess);
          EXPECT_EQ(state, rank.rank == 0 ? ncclRemoteError : ncclSuccess);
          if (rank.rank == 0) {
            EXPECT_STREQ(NCCL(ncclGetLastError)(rank.comm), "NET/IB: got completion with error 12");
          }
          EXPECT_EQ(CUDA(cuStreamQuery)(rank.gpu.stream), CUDA_ERROR_NOT_READY);
          NCCL(ncclCommAbort)(rank.comm);
        });
      });
}

TEST(Fault, OldVersions) {
  in_child("driver = 12080\nnccl = 21701\n", [] {
    int version = 0;
    CU_OK(CUDA(cuDriverGetVersion)(&version));
    EXPECT_EQ(version, 12080);
    ASSERT_EQ(NCCL(ncclGetVersion)(&version), ncclSuccess);
    EXPECT_EQ(version, 21701);
  });
}

}  // namespace
}  // namespace nccl_check::doubles::testing
