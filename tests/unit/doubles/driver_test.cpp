// The stand-in of the driver.
#include <atomic>
#include <cstring>

#include "tests/unit/doubles/support.hpp"

namespace nccl_check::doubles::testing {
namespace {

using kernels::Reduction;
using kernels::Type;

TEST(Driver, GivesFunctionsByNameAndVersion) {
  in_child("", [] {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status{};
    const auto get = CUDA(cuGetProcAddress_v2);
    CU_OK(get("cuMemAlloc", &function, 12000, 0, &status));
    EXPECT_EQ(function, reinterpret_cast<void*>(CUDA(cuMemAlloc_v2)));
    EXPECT_EQ(get("cuMemAlloc", &function, 2000, 0, &status), CUDA_ERROR_NOT_FOUND);  // the 32-bit one
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(get("cuNoSuch", &function, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CU_OK(get("cuEventElapsedTime", &function, 12080, 0, nullptr));
    EXPECT_EQ(function, reinterpret_cast<void*>(CUDA(cuEventElapsedTime_v2)));
  });
  in_child("driver = 12020\n", [] {
    void* function = nullptr;
    int version = 0;
    CU_OK(CUDA(cuDriverGetVersion)(&version));
    EXPECT_EQ(version, 12020);
    CU_OK(CUDA(cuGetProcAddress_v2)("cuEventElapsedTime", &function, 12080, 0, nullptr));
    EXPECT_NE(function, reinterpret_cast<void*>(CUDA(cuEventElapsedTime_v2)));  // newer than this driver
  });
}

TEST(Driver, RefusesWhatIsOutOfOrder) {
  in_child("", [] {
    int count = 0;
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA(cuDeviceGetCount)(&count), CUDA_ERROR_NOT_INITIALIZED);
    CU_OK(CUDA(cuInit)(0));
    EXPECT_EQ(CUDA(cuMemAlloc_v2)(&address, 4096), CUDA_ERROR_INVALID_CONTEXT);
    const Gpu gpu(0);
    EXPECT_EQ(CUDA(cuStreamSynchronize)(reinterpret_cast<CUstream>(&count)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CUDA(cuMemAlloc_v2)(&address, 65U << 20U), CUDA_ERROR_OUT_OF_MEMORY);
    address = gpu.allocate(4096);
    EXPECT_EQ(CUDA(cuMemsetD8Async)(address, 0, 4097, gpu.stream), CUDA_ERROR_INVALID_VALUE);
    CU_OK(CUDA(cuMemFree_v2)(address));
    EXPECT_EQ(CUDA(cuMemFree_v2)(address), CUDA_ERROR_INVALID_VALUE);
    CUmodule module = nullptr;
    EXPECT_EQ(CUDA(cuModuleLoadData)(&module, "rubbish"), CUDA_ERROR_INVALID_IMAGE);
    CU_OK(CUDA(cuDevicePrimaryCtxRelease_v2)(0));
    EXPECT_EQ(CUDA(cuMemAlloc_v2)(&address, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  });
}

TEST(Driver, DevicesAreNamedAsTheyAre) {
  in_child("", [] {
    CU_OK(CUDA(cuInit)(0));
    int count = 0, device = -1, value = 0;
    std::size_t bytes = 0;
    char text[64];
    CU_OK(CUDA(cuDeviceGetCount)(&count));
    EXPECT_EQ(count, 8);
    CU_OK(CUDA(cuDeviceGetName)(text, sizeof text, 0));
    EXPECT_STREQ(text, "SIMULATED H200");
    CU_OK(CUDA(cuDeviceGetPCIBusId)(text, sizeof text, 3));
    CU_OK(CUDA(cuDeviceGetByPCIBusId)(&device, text));
    EXPECT_EQ(device, 3);
    CU_OK(CUDA(cuDeviceTotalMem_v2)(&bytes, 0));
    EXPECT_EQ(bytes, 150754820096U);
    CU_OK(CUDA(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    EXPECT_EQ(value, 9);
    CU_OK(CUDA(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    EXPECT_EQ(value, 132);
  });
}

TEST(Driver, ShowsOnlyVisibleDevices) {
  in_child("", [] {
    ::setenv("CUDA_VISIBLE_DEVICES", "5,2", 1);
    CU_OK(CUDA(cuInit)(0));
    int count = 0;
    char text[64];
    CU_OK(CUDA(cuDeviceGetCount)(&count));
    EXPECT_EQ(count, 2);
    CU_OK(CUDA(cuDeviceGetPCIBusId)(text, sizeof text, 0));
    EXPECT_STREQ(text, "0000:57:00.0");
  });
}

TEST(Driver, KernelsFillAndVerify) {
  in_child("", [] {
    const Gpu gpu(0);
    const std::uint64_t count = 100003;
    const CUdeviceptr data = gpu.allocate(count * 4), copy = gpu.allocate(count * 4);
    CU_OK(gpu.fill(data, count, Type::float32, Reduction::sum, 1, 1));
    CU_OK(CUDA(cuMemcpyDtoDAsync_v2)(copy, data, count * 4, gpu.stream));
    EXPECT_EQ(gpu.verify(copy, count, Type::float32, Reduction::sum, 1, 1), 0U);
    CU_OK(gpu.launch("nccl_check_flip", kernels::FlipArguments{reinterpret_cast<void*>(copy), 44}));
    EXPECT_EQ(gpu.verify(copy, count, Type::float32, Reduction::sum, 1, 1), 1U);
  });
}

// Both ways at once, held by a latch, as pairs of GPUs are measured.
TEST(Driver, LatchStartsCopiesBothWaysTogether) {
  in_child("noise = 0\nlatency = 0\n", [] {
    constexpr std::size_t bytes = 1U << 20U;
    const Gpu one(0), other(1);
    std::uint32_t* flag = nullptr;
    CU_OK(CUDA(cuMemHostAlloc)(reinterpret_cast<void**>(&flag), 4, 0));
    *flag = 0;
    other.use();
    const CUdeviceptr there = other.allocate(bytes), landing_there = other.allocate(bytes);
    one.use();
    const CUdeviceptr here = one.allocate(bytes), landing = one.allocate(bytes);
    CU_OK(CUDA(cuMemsetD8Async)(here, 1, bytes, one.stream));
    CU_OK(CUDA(cuMemsetD8Async)(there, 2, bytes, other.stream));
    CUevent start[2], end[2];
    int i = 0;
    for (const Gpu* gpu : {&one, &other}) {
      gpu->use();
      CU_OK(gpu->launch("nccl_check_latch", kernels::LatchArguments{flag, 1, 0, 10'000'000'000}));
      start[i] = gpu->event();
      CU_OK(gpu == &one
                ? CUDA(cuMemcpyPeerAsync)(landing_there, other.context, here, one.context, bytes, gpu->stream)
                : CUDA(cuMemcpyPeerAsync)(landing, one.context, there, other.context, bytes, gpu->stream));
      end[i++] = gpu->event();
    }
    EXPECT_EQ(CUDA(cuStreamQuery)(one.stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(CUDA(cuEventQuery)(end[1]), CUDA_ERROR_NOT_READY);
    __atomic_store_n(flag, 1U, __ATOMIC_RELEASE);
    for (i = 0; i < 2; ++i) {
      EXPECT_NEAR(bytes / milliseconds(start[i], end[i]) / 1e6, 18 * 20.6, 0.5);
    }
    std::vector<unsigned char> got(bytes);
    CU_OK(CUDA(cuMemcpyDtoH_v2)(got.data(), landing, bytes));
    EXPECT_EQ(got, std::vector<unsigned char>(bytes, 2));
  });
}

TEST(Driver, RatesAreThoseOfTheWay) {
  in_child("noise = 0\nlatency = 0\n", [] {
    constexpr std::size_t bytes = 1U << 20U;
    const Gpu other(1);
    const CUdeviceptr remote = other.allocate(bytes);
    const Gpu gpu(0);
    const CUdeviceptr local = gpu.allocate(bytes), second = gpu.allocate(bytes);
    void* host = nullptr;
    CU_OK(CUDA(cuMemHostAlloc)(&host, bytes, 0));
    const auto rate = [&](const std::function<CUresult()>& work) {
      const CUevent start = gpu.event();
      EXPECT_EQ(work(), CUDA_SUCCESS);
      return bytes / milliseconds(start, gpu.event()) / 1e6;
    };
    const auto stream_copy = [&](CUdeviceptr to, CUdeviceptr from) {
      return gpu.launch("nccl_check_copy",
                        kernels::StreamArguments{reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                                                 nullptr, bytes});
    };
    EXPECT_NEAR(rate([&] { return CUDA(cuMemcpyHtoDAsync_v2)(local, host, bytes, gpu.stream); }), 55, 0.1);
    EXPECT_NEAR(rate([&] { return CUDA(cuMemcpyDtoHAsync_v2)(host, local, bytes, gpu.stream); }), 55, 0.1);
    EXPECT_NEAR(rate([&] { return stream_copy(second, local); }), 2100, 3);
    CU_OK(CUDA(cuCtxEnablePeerAccess)(other.context, 0));
    EXPECT_EQ(CUDA(cuCtxEnablePeerAccess)(other.context, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_NEAR(rate([&] { return stream_copy(remote, local); }), 370.8, 0.5);
  });
}

TEST(Driver, PeerMemoryIsOutOfReachUntilItIsEnabled) {
  in_child("", [] {
    const Gpu other(1);
    const CUdeviceptr remote = other.allocate(64);
    const Gpu gpu(0);
    const CUdeviceptr local = gpu.allocate(64);
    CU_OK(gpu.launch("nccl_check_copy",
                     kernels::StreamArguments{reinterpret_cast<void*>(local), reinterpret_cast<void*>(remote),
                                              nullptr, 64}));
    EXPECT_EQ(gpu.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(gpu.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);  // and stays so
  });
}

TEST(Driver, StreamsWaitForEvents) {
  in_child("", [] {
    const Gpu gpu(0);
    CUstream second = nullptr;
    CU_OK(CUDA(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
    std::uint32_t* flag = nullptr;
    CU_OK(CUDA(cuMemHostAlloc)(reinterpret_cast<void**>(&flag), 4, 0));
    *flag = 0;
    CU_OK(gpu.launch("nccl_check_latch", kernels::LatchArguments{flag, 1, 0, 10'000'000'000}));
    const CUevent behind = gpu.event();
    CU_OK(CUDA(cuStreamWaitEvent)(second, behind, 0));
    EXPECT_EQ(CUDA(cuStreamQuery)(second), CUDA_ERROR_NOT_READY);
    __atomic_store_n(flag, 1U, __ATOMIC_RELEASE);
    CU_OK(CUDA(cuStreamSynchronize)(second));
    CU_OK(CUDA(cuEventQuery)(behind));
  });
}

TEST(Driver, LatchEndsByItself) {
  in_child("", [] {
    const Gpu gpu(0);
    std::uint32_t* flag = nullptr;
    CU_OK(CUDA(cuMemHostAlloc)(reinterpret_cast<void**>(&flag), 4, 0));
    *flag = 0;
    CU_OK(gpu.launch("nccl_check_latch", kernels::LatchArguments{flag, 1, 0, 5'000'000}));
    CU_OK(gpu.synchronize());
  });
}

TEST(Driver, SamplesDifferALittleAndRepeat) {
  std::string description = "latency = 0\n";
  in_child(description, [] {
    const Gpu gpu(0);
    const CUdeviceptr data = gpu.allocate(1U << 20U);
    double least = 1e9, most = 0;
    for (int i = 0; i < 50; ++i) {
      const CUevent start = gpu.event();
      CU_OK(CUDA(cuMemsetD8Async)(data, 0, 1U << 20U, gpu.stream));
      const double took = milliseconds(start, gpu.event());
      least = std::min(least, took);
      most = std::max(most, took);
    }
    EXPECT_GT(most / least, 1.002);
    EXPECT_LT(most / least, 1.007);
  });
}

}  // namespace
}  // namespace nccl_check::doubles::testing
