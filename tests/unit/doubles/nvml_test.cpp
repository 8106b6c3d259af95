#include "tests/doubles/nvml/nvml.hpp"

#include <cstring>

#include "tests/unit/doubles/support.hpp"

namespace nccl_check::doubles::testing {
namespace {

using nvml::Device;
using nvml::FieldValue;
using nvml::PciInfo;

// Any function of NVML: they all return a number.
template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  return symbol<int(Arguments...)>(testing::nvml(), name)(arguments...);
}

Device* device(unsigned index) {
  Device* found = nullptr;
  EXPECT_EQ(call("nvmlDeviceGetHandleByIndex_v2", index, &found), 0);
  return found;
}

unsigned number(const char* name, unsigned index) {
  unsigned value = ~0U;
  EXPECT_EQ(call(name, device(index), &value), 0) << name;
  return value;
}

unsigned field(unsigned index, std::uint32_t id, std::uint32_t scope = 0) {
  FieldValue value{};
  value.field = id;
  value.scope = scope;
  EXPECT_EQ(call("nvmlDeviceGetFieldValues", device(index), 1, &value), 0);
  EXPECT_EQ(value.result, 0) << "field " << id;
  return value.value.number;
}

TEST(Nvml, NamesTheSameDevicesAsTheDriver) {
  in_child("gpus = 4\n[fault missing_gpu]\ngpu = 1\n", [] {
    unsigned count = 0;
    char text[96];
    EXPECT_EQ(call("nvmlDeviceGetCount_v2", &count), nvml::uninitialized);
    ASSERT_EQ(call("nvmlInitWithFlags", 2U), 0);
    ASSERT_EQ(call("nvmlDeviceGetCount_v2", &count), 0);
    EXPECT_EQ(count, 0U) << "without attaching the real library lists none";
    ASSERT_EQ(call("nvmlInitWithFlags", 0U), 0);
    ASSERT_EQ(call("nvmlDeviceGetCount_v2", &count), 0);
    EXPECT_EQ(count, 3U);
    EXPECT_EQ(number("nvmlDeviceGetMinorNumber", 1), 2U);  // the missing one's number is left out
    EXPECT_EQ(call("nvmlDeviceGetUUID", device(1), text, 96U), 0);
    EXPECT_EQ(std::strlen(text), 40U);
    Device* same = nullptr;
    EXPECT_EQ(call("nvmlDeviceGetHandleByUUID", static_cast<const char*>(text), &same), 0);
    EXPECT_EQ(same, device(1));
    PciInfo info{};
    EXPECT_EQ(call("nvmlDeviceGetPciInfo_v3", device(1), &info), 0);
    EXPECT_STREQ(info.address, "00000000:33:00.0");
    EXPECT_EQ(call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(info.address), &same), 0);
    EXPECT_EQ(same, device(1));
    CU_OK(CUDA(cuInit)(0));
    int by_driver = -1;
    CU_OK(CUDA(cuDeviceGetByPCIBusId)(&by_driver, info.address));
    EXPECT_EQ(by_driver, 1);
    CUuuid uuid;
    CU_OK(CUDA(cuDeviceGetUuid_v2)(&uuid, 1));
    unsigned first = 0;
    std::sscanf(text, "GPU-%2x", &first);
    EXPECT_EQ(static_cast<unsigned char>(uuid.bytes[0]), first);
  });
}

TEST(Nvml, AHealthyDeviceIsHealthy) {
  in_child("", [] {
    ASSERT_EQ(call("nvmlInitWithFlags", 0U), 0);
    char text[96];
    EXPECT_EQ(call("nvmlSystemGetDriverVersion", text, 96U), 0);
    EXPECT_STREQ(text, "580.00-SIMULATED");
    EXPECT_EQ(number("nvmlDeviceGetCurrPcieLinkWidth", 0), 16U);
    EXPECT_EQ(number("nvmlDeviceGetCurrPcieLinkGeneration", 0), 5U);
    EXPECT_EQ(number("nvmlDeviceGetMemoryBusWidth", 0), 6144U);
    EXPECT_EQ(field(0, nvml::nvlink_count), 18U);
    EXPECT_EQ(field(0, nvml::nvlink_speed, 17), 26562U);
    EXPECT_EQ(field(0, nvml::remap_pending), 0U);
    FieldValue unknown{};
    unknown.field = 9999;
    EXPECT_EQ(call("nvmlDeviceGetFieldValues", device(0), 1, &unknown), 0);
    EXPECT_EQ(unknown.result, nvml::not_supported);
    nvml::FabricInfo fabric{};
    EXPECT_EQ(call("nvmlDeviceGetGpuFabricInfoV", device(0), &fabric), nvml::argument_version);
    fabric.version = nvml::fabric_version_3;
    EXPECT_EQ(call("nvmlDeviceGetGpuFabricInfoV", device(0), &fabric), 0);
    EXPECT_EQ(fabric.state, 3);
    EXPECT_EQ(call("nvmlShutdown"), 0);
  });
}

TEST(Nvml, ShowsWhatIsWrongWithOneDevice) {
  in_child(
      "[fault ecc_errors]\ngpu = 1\nvalue = 3\n[fault row_remap]\ngpu = 1\nreason = pending\n[fault "
      "nvlinks_down]\n"
      "gpu = 1\nlink = 4\n[fault pcie_width]\ngpu = 1\nvalue = 8\n[fault pcie_generation]\ngpu = 1\nvalue = "
      "1\n"
      "[fault throttled]\ngpu = 1\nreason = power_brake\n[fault mig]\ngpu = 1\n[fault "
      "exclusive_process]\ngpu = 1\n"
      "[fault busy]\ngpu = 1\nvalue = 4711\n",
      [] {
        ASSERT_EQ(call("nvmlInitWithFlags", 0U), 0);
        for (const unsigned index : {0U, 1U}) {
          const bool bad = index == 1;
          unsigned long long count = 0, bits = 0;
          EXPECT_EQ(call("nvmlDeviceGetTotalEccErrors", device(index), 1, 0, &count), 0);
          EXPECT_EQ(count, bad ? 3U : 0U);
          EXPECT_EQ(field(index, nvml::remap_pending), bad ? 1U : 0U);
          EXPECT_EQ(field(index, nvml::remap_failure), 0U);
          EXPECT_EQ(field(index, nvml::nvlink_state, 4), bad ? 0U : 1U);
          EXPECT_EQ(field(index, nvml::nvlink_state, 5), 1U);
          EXPECT_EQ(number("nvmlDeviceGetCurrPcieLinkWidth", index), bad ? 8U : 16U);
          EXPECT_EQ(number("nvmlDeviceGetCurrPcieLinkGeneration", index), bad ? 1U : 5U);
          EXPECT_EQ(call("nvmlDeviceGetCurrentClocksEventReasons", device(index), &bits), 0);
          EXPECT_EQ(bits, bad ? 0x80U : 0U);
          unsigned mig = 9, pending = 9;
          EXPECT_EQ(call("nvmlDeviceGetMigMode", device(index), &mig, &pending), 0);
          EXPECT_EQ(mig, bad ? 1U : 0U);
          EXPECT_EQ(number("nvmlDeviceGetComputeMode", index), bad ? 3U : 0U);
          unsigned room = 4;
          nvml::ProcessInfo processes[4];
          EXPECT_EQ(call("nvmlDeviceGetComputeRunningProcesses_v3", device(index), &room, processes), 0);
          EXPECT_EQ(room, bad ? 1U : 0U);
          if (bad) {
            EXPECT_EQ(processes[0].process, 4711U);
          }
        }
        CUcontext context = nullptr;
        CU_OK(CUDA(cuInit)(0));
        EXPECT_EQ(CUDA(cuDevicePrimaryCtxRetain)(&context, 1), CUDA_ERROR_DEVICE_UNAVAILABLE);
      });
}

TEST(Nvml, SaysThatDriverAndLibraryDoNotMatch) {
  in_child("[fault nvml_error]\ncode = 18\n", [] {
    EXPECT_EQ(call("nvmlInitWithFlags", 0U), 18);
    const auto text = symbol<const char*(int)>(testing::nvml(), "nvmlErrorString");
    EXPECT_STREQ(text(18), "Driver/library version mismatch");
  });
}

}  // namespace
}  // namespace nccl_check::doubles::testing
