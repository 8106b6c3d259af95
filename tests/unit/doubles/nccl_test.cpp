// The stand-in of NCCL: data, time and how communicators begin and end.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/unit/doubles/support.hpp"

namespace nccl_check::doubles::testing {
namespace {

using kernels::Reduction;
using kernels::Type;

ncclDataType_t nccl_type(Type type) {
  return static_cast<ncclDataType_t>(type);
}
void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// Shared by the processes of a case: the unique id, and whether it is there.
struct Meeting {
  ncclUniqueId id;
  std::uint32_t there;
};
class SharedMeeting {
 public:
  SharedMeeting() {
    void* page = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    meeting_ = static_cast<Meeting*>(page);
  }
  ncclUniqueId id(bool maker) const {
    if (maker) {
      EXPECT_EQ(NCCL(ncclGetUniqueId)(&meeting_->id), ncclSuccess);
      __atomic_store_n(&meeting_->there, 1U, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&meeting_->there, __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return meeting_->id;
  }

 private:
  Meeting* meeting_;
};

void all_reduce(const Rank& rank, CUdeviceptr data, std::uint64_t count, Type type, Reduction reduction) {
  ASSERT_EQ(rank.gpu.fill(data, count, type, reduction, rank.rank, rank.ranks), CUDA_SUCCESS);
  const ncclResult_t first =
      NCCL(ncclAllReduce)(pointer(data), pointer(data), count, nccl_type(type),
                          static_cast<ncclRedOp_t>(reduction), rank.comm, rank.gpu.stream);
  ASSERT_EQ(poll(rank.comm, first), ncclSuccess);
}

void reduces_right(const Rank& rank, Type type, Reduction reduction, std::uint64_t count) {
  const CUdeviceptr data = rank.gpu.allocate(count * kernels::size_of(type));
  all_reduce(rank, data, count, type, reduction);
  EXPECT_EQ(rank.gpu.verify(data, count, type, reduction, kernels::all_ranks, rank.ranks), 0U)
      << "type " << static_cast<int>(type) << " reduction " << static_cast<int>(reduction);
  EXPECT_EQ(CUDA(cuMemFree_v2)(data), CUDA_SUCCESS);
}

TEST(Nccl, EveryTypeAndReductionIsExact) {
  in_child("", [] {
    with_ranks(8, [](Rank& rank) {
      for (std::uint32_t type = 0; type < kernels::type_count; ++type) {
        for (const auto reduction :
             {Reduction::sum, Reduction::prod, Reduction::max, Reduction::min, Reduction::avg}) {
          reduces_right(rank, static_cast<Type>(type), reduction, 4099);
        }
      }
    });
  });
}

TEST(Nccl, TwoProcessesOfFourRanksMeet) {
  const SharedMeeting meeting;
  on_hosts(2, "", [&](int host) {
    with_ranks(host * 4, 4, 8, meeting.id(host == 0), [](Rank& rank) {
      int count = 0, own = -1, device = -1;
      EXPECT_EQ(NCCL(ncclCommCount)(rank.comm, &count), ncclSuccess);
      EXPECT_EQ(NCCL(ncclCommUserRank)(rank.comm, &own), ncclSuccess);
      EXPECT_EQ(NCCL(ncclCommCuDevice)(rank.comm, &device), ncclSuccess);
      EXPECT_EQ(count, 8);
      EXPECT_EQ(own, rank.rank);
      EXPECT_EQ(device, rank.gpu.device);
      for (const Type type : {Type::float32, Type::float16, Type::bfloat16, Type::int8}) {
        reduces_right(rank, type, Reduction::sum, 100001);
        reduces_right(rank, type, Reduction::avg, 100001);
      }
    });
  });
}

// Each rank's data in copies is that of one rank alone.
struct Moved {
  const Rank& rank;
  std::uint64_t count;
  CUdeviceptr from, to;
  std::uint64_t wrong(CUdeviceptr data, int whose) const {
    return rank.gpu.verify(data, count, Type::float32, Reduction::sum, static_cast<std::uint32_t>(whose), 1);
  }
};

void others_move_right(const Rank& rank) {
  constexpr std::uint64_t count = 10007;
  const auto n = static_cast<std::uint64_t>(rank.ranks);
  const Moved moved{rank, count, rank.gpu.allocate(count * 4), rank.gpu.allocate(count * 4 * n)};
  CU_OK(rank.gpu.fill(moved.from, count, Type::float32, Reduction::sum, rank.rank, 1));
  ASSERT_EQ(poll(rank.comm, NCCL(ncclAllGather)(pointer(moved.from), pointer(moved.to), count, ncclFloat32,
                                                rank.comm, rank.gpu.stream)),
            ncclSuccess);
  for (int other = 0; other < rank.ranks; ++other) {
    EXPECT_EQ(moved.wrong(moved.to + count * 4 * static_cast<std::uint64_t>(other), other), 0U);
  }
  ASSERT_EQ(NCCL(ncclBroadcast)(pointer(moved.from), pointer(moved.to), count, ncclFloat32, rank.ranks - 1,
                                rank.comm, rank.gpu.stream),
            ncclSuccess);
  EXPECT_EQ(moved.wrong(moved.to, rank.ranks - 1), 0U);
  const int partner = rank.rank ^ 1;
  NCCL(ncclGroupStart)();
  EXPECT_EQ(NCCL(ncclSend)(pointer(moved.from), count, ncclFloat32, partner, rank.comm, rank.gpu.stream),
            ncclSuccess);
  EXPECT_EQ(NCCL(ncclRecv)(pointer(moved.to), count, ncclFloat32, partner, rank.comm, rank.gpu.stream),
            ncclSuccess);
  ASSERT_EQ(poll(rank.comm, NCCL(ncclGroupEnd)()), ncclSuccess);
  EXPECT_EQ(moved.wrong(moved.to, partner), 0U);
}

void reductions_move_right(const Rank& rank) {
  constexpr std::uint64_t count = 5003;
  const auto n = static_cast<std::uint64_t>(rank.ranks);
  const CUdeviceptr from = rank.gpu.allocate(count * 4 * n), to = rank.gpu.allocate(count * 4 * n);
  CU_OK(rank.gpu.fill(from, count * n, Type::int32, Reduction::sum, rank.rank, rank.ranks));
  ASSERT_EQ(NCCL(ncclReduce)(pointer(from), pointer(to), count * n, ncclInt32, ncclSum, 1, rank.comm,
                             rank.gpu.stream),
            ncclSuccess);
  if (rank.rank == 1) {
    EXPECT_EQ(rank.gpu.verify(to, count * n, Type::int32, Reduction::sum, kernels::all_ranks, rank.ranks),
              0U);
  }
  // In place: a rank's result is its own block of what was reduced.
  const CUdeviceptr own = from + count * 4 * static_cast<std::uint64_t>(rank.rank);
  ASSERT_EQ(NCCL(ncclReduceScatter)(pointer(from), pointer(own), count, ncclInt32, ncclSum, rank.comm,
                                    rank.gpu.stream),
            ncclSuccess);
  ASSERT_EQ(NCCL(ncclAllGather)(pointer(own), pointer(from), count, ncclInt32, rank.comm, rank.gpu.stream),
            ncclSuccess);
  EXPECT_EQ(rank.gpu.verify(from, count * n, Type::int32, Reduction::sum, kernels::all_ranks, rank.ranks),
            0U);
}

TEST(Nccl, OtherOperationsMoveTheRightData) {
  const SharedMeeting meeting;
  on_hosts(2, "", [&](int host) {
    with_ranks(host * 3, 3, 6, meeting.id(host == 0), [](Rank& rank) {
      others_move_right(rank);
      reductions_move_right(rank);
    });
  });
}

TEST(Nccl, FourHostsOfEightAreQuickAndLimitedByTheirNetwork) {
  const SharedMeeting meeting;
  const auto begin = std::chrono::steady_clock::now();
  on_hosts(4, "noise = 0\nlatency = 0\n", [&](int host) {
    with_ranks(host * 8, 8, 32, meeting.id(host == 0), [](Rank& rank) {
      constexpr std::uint64_t bytes = 1U << 20U;
      const CUdeviceptr data = rank.gpu.allocate(bytes);
      all_reduce(rank, data, bytes / 4, Type::float32, Reduction::sum);
      EXPECT_EQ(rank.gpu.verify(data, bytes / 4, Type::float32, Reduction::sum, kernels::all_ranks, 32), 0U);
      const CUevent start = rank.gpu.event();
      all_reduce(rank, data, bytes / 4, Type::float32, Reduction::sum);
      const double with_fill = milliseconds(start, rank.gpu.event());
      const double alone = with_fill - bytes / 4200e6;
      EXPECT_NEAR(2.0 * 31 / 32 * bytes / alone / 1e6, 18 * 20.6, 4);  // 8 NICs carry 384, NVLink less
    });
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("4 x 8 ranks, two all_reduces of 1 MiB a rank, verified: %.2f s\n", took.count());
}

TEST(Nccl, CollectivesEndTogetherAtTheRingsRate) {
  in_child("noise = 0\nlatency = 0\n", [] {
    with_ranks(4, [](Rank& rank) {
      constexpr std::uint64_t bytes = 1U << 20U;
      const CUdeviceptr data = rank.gpu.allocate(bytes);
      all_reduce(rank, data, bytes / 4, Type::float32, Reduction::sum);
      const CUevent start = rank.gpu.event();
      ASSERT_EQ(NCCL(ncclAllReduce)(pointer(data), pointer(data), bytes / 4, ncclFloat32, ncclMax, rank.comm,
                                    rank.gpu.stream),
                ncclSuccess);
      EXPECT_NEAR(2.0 * 3 / 4 * bytes / milliseconds(start, rank.gpu.event()) / 1e6, 370.8, 0.5);
    });
  });
}

TEST(Nccl, NonBlockingCallsReturnBeforeTheyAreDone) {
  in_child("init_time = 50\nconnect_time = 50\n", [] {
    const Gpu gpu(0);
    ncclUniqueId id{};
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess);
    ASSERT_EQ(NCCL(ncclCommInitRankConfig)(&comm, 1, id, 0, &config), ncclInProgress);
    const CUdeviceptr data = gpu.allocate(1024);
    const auto reduce = [&] {
      return NCCL(ncclAllReduce)(pointer(data), pointer(data), 256, ncclInt32, ncclSum, comm, gpu.stream);
    };
    EXPECT_EQ(reduce(), ncclInvalidArgument);  // it is not made yet
    EXPECT_NE(std::strstr(NCCL(ncclGetLastError)(comm), "before the previous operation"), nullptr);
    EXPECT_EQ(poll(comm, ncclInProgress), ncclSuccess);
    EXPECT_EQ(reduce(), ncclInProgress);  // connections are made now
    EXPECT_EQ(poll(comm, ncclInProgress), ncclSuccess);
    EXPECT_EQ(reduce(), ncclSuccess);
    EXPECT_EQ(NCCL(ncclAllReduce)(&id, &id, 2, ncclInt32, ncclSum, comm, gpu.stream), ncclInvalidArgument);
    const ncclResult_t finalized = NCCL(ncclCommFinalize)(comm);
    EXPECT_EQ(poll(comm, finalized), ncclSuccess);
    EXPECT_EQ(NCCL(ncclCommDestroy)(comm), ncclSuccess);
    EXPECT_EQ(NCCL(ncclCommDestroy)(comm), ncclInvalidArgument);
  });
}

TEST(Nccl, BlockingCommunicatorsAreMadeInAGroup) {
  in_child("", [] {
    ncclUniqueId id{};
    ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess);
    std::vector<ncclComm_t> comms(2);
    NCCL(ncclGroupStart)();
    for (int i = 0; i < 2; ++i) {
      const Gpu gpu(i);
      ASSERT_EQ(NCCL(ncclCommInitRankConfig)(&comms[static_cast<std::size_t>(i)], 2, id, i, nullptr),
                ncclSuccess);
    }
    EXPECT_EQ(NCCL(ncclGroupEnd)(), ncclSuccess);
    for (const ncclComm_t comm : comms) EXPECT_EQ(NCCL(ncclCommDestroy)(comm), ncclSuccess);
  });
}

TEST(Nccl, RefusesTwoRanksOnOneGpu) {
  in_child("", [] {
    const Gpu gpu(0);
    ncclUniqueId id{};
    ncclComm_t comms[2];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(NCCL(ncclGetUniqueId)(&id), ncclSuccess);
    for (int i = 0; i < 2; ++i) NCCL(ncclCommInitRankConfig)(&comms[i], 2, id, i, &config);
    EXPECT_EQ(poll(comms[0], ncclInProgress), ncclInvalidUsage);
    EXPECT_NE(std::strstr(NCCL(ncclGetLastError)(comms[0]), "Duplicate GPU"), nullptr);
  });
}

TEST(Nccl, ALostProcessIsARemoteErrorAndAbortReturns) {
  const SharedMeeting meeting;
  on_hosts(2, "", [&](int host) {
    with_ranks(host, 1, 2, meeting.id(host == 0), [&](Rank& rank) {
      const CUdeviceptr data = rank.gpu.allocate(4096);
      all_reduce(rank, data, 1024, Type::float32, Reduction::sum);
      if (host == 1) {
        EXPECT_EQ(rank.gpu.synchronize(), CUDA_SUCCESS);
        ::_exit(0);
      }
      ASSERT_EQ(NCCL(ncclAllReduce)(pointer(data), pointer(data), 1024, ncclFloat32, ncclSum, rank.comm,
                                    rank.gpu.stream),
                ncclSuccess);
      ncclResult_t state = ncclSuccess;
      for (int i = 0; i < 5000 && state == ncclSuccess; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        NCCL(ncclCommGetAsyncError)(rank.comm, &state);
      }
      EXPECT_EQ(state, ncclRemoteError);
      EXPECT_EQ(CUDA(cuStreamQuery)(rank.gpu.stream), CUDA_ERROR_NOT_READY);
      EXPECT_EQ(NCCL(ncclCommAbort)(rank.comm), ncclSuccess);
      EXPECT_EQ(rank.gpu.synchronize(), CUDA_SUCCESS);
    });
  });
}

TEST(Nccl, LogsItsNetworkAndChannels) {
  for (const bool socket : {false, true}) {
    const std::string path = ::testing::TempDir() + "nccl-log-" + std::to_string(::getpid());
    in_child(socket ? "network = Socket\n" : "", [&] {
      ::setenv("NCCL_DEBUG", "INFO", 1);
      ::setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
      with_ranks(1, [](Rank&) {});
      std::FILE* file = std::fopen(path.c_str(), "r");
      ASSERT_NE(file, nullptr);
      std::string text(65536, '\0');
      text.resize(std::fread(text.data(), 1, text.size(), file));
      std::fclose(file);
      EXPECT_NE(text.find(socket ? "NCCL INFO Using network Socket" : "NCCL INFO Using network IB"),
                std::string::npos);
      EXPECT_EQ(text.find("[0]mlx5_0:1/IB") == std::string::npos, socket);
      EXPECT_NE(text.find("24 coll channels"), std::string::npos);
    });
    std::filesystem::remove(path);
  }
}

// However a process ends, nothing of it can stay: it has no file, and no memory that others could open.
TEST(Nccl, HasNoSharedMemoryAndNoFiles) {
  in_child("", [] {
    with_ranks(2, [](Rank& rank) {
      const CUdeviceptr data = rank.gpu.allocate(4096);
      all_reduce(rank, data, 1024, Type::float32, Reduction::sum);
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);) {
        EXPECT_EQ(line.find("/dev/shm"), std::string::npos) << line;
        EXPECT_EQ(line.find("/SYSV"), std::string::npos) << line;
      }
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
        EXPECT_EQ(target.find("/dev/shm"), std::string::npos) << target;
        EXPECT_EQ(target.find("simulation"), std::string::npos) << target;
      }
    });
  });
}

}  // namespace
}  // namespace nccl_check::doubles::testing
