// What is read from sysfs and procfs, on folders that look like them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/nccl/affinity.hpp"
#include "engine/nccl/kernel_list.hpp"
#include "engine/nccl/ports.hpp"
#include "engine/nccl/sharing.hpp"

namespace nccl_check::engine::nccl {
namespace {

namespace fs = std::filesystem;

class NodeFacts : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("nccl_check_facts." + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void port(const std::string& device, const std::string& state, const std::string& rate) const {
    write("sys/class/infiniband/" + device + "/ports/1/state", state + "\n");
    write("sys/class/infiniband/" + device + "/ports/1/rate", rate + "\n");
  }

  fs::path root_;
};

TEST_F(NodeFacts, ActivePortsAddUp) {
  EXPECT_EQ(read_ports(root_.string()).active, 0);
  port("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  port("mlx5_1", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  port("mlx5_2", "1: DOWN", "400 Gb/sec (4X NDR)");
  port("mlx5_3", "4: ACTIVE", "100 Gb/sec (4X EDR)");
  const auto ports = read_ports(root_.string());
  EXPECT_EQ(ports.active, 3);
  EXPECT_DOUBLE_EQ(ports.rate, 112.5);
  EXPECT_EQ(ports.text, "2 ports at 400 Gb/s (mlx5_0:1, mlx5_1:1), 1 port at 100 Gb/s (mlx5_3:1)");
}

TEST_F(NodeFacts, ALivingMpsDaemonIsSeenADeadOneIsNot) {
  const auto pipes = (root_ / "tmp/nvidia-mps").string();
  EXPECT_EQ(mps_daemon(root_.string(), nullptr), 0);
  write("tmp/nvidia-mps/nvidia-cuda-mps-control.pid", "77\n");
  EXPECT_EQ(mps_daemon(root_.string(), nullptr), 0);
  write("proc/77/comm", "nvidia-cuda-mps\n");
  EXPECT_EQ(mps_daemon(root_.string(), nullptr), 77);
  EXPECT_EQ(mps_daemon(root_.string(), pipes.c_str()), 77);
  EXPECT_EQ(mps_daemon(root_.string(), "/nowhere"), 0);
  write("proc/77/comm", "bash\n");
  EXPECT_EQ(mps_daemon(root_.string(), nullptr), 0);
}

TEST(CpuList, AsSysfsWritesIt) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), std::vector<int>{5});
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_TRUE(parse_cpu_list("0-x").empty());
  EXPECT_TRUE(parse_cpu_list("-3").empty());
  EXPECT_TRUE(parse_cpu_list("1000000").empty());
}

TEST_F(NodeFacts, TheKernelListsGpusInPciOrderOrNotAtAll) {
  EXPECT_TRUE(kernel_list(root_.string()).empty());
  const auto gpu = [&](const std::string& pci, const std::string& uuid, const std::string& minor) {
    write("proc/driver/nvidia/gpus/" + pci + "/information",
          "Model: \t\t NVIDIA H200\nIRQ:   \t\t 83\nGPU UUID: \t " + uuid + "\nBus Location: \t " + pci +
              "\nDevice Minor: \t " + minor + "\n");
  };
  gpu("0000:5d:00.0", "GPU-22222222-0000-0000-0000-000000000000", "0");
  gpu("0000:3b:00.0", "GPU-11111111-0000-0000-0000-000000000000", "3");
  const auto known = kernel_list(root_.string());
  ASSERT_EQ(known.size(), 2U);
  EXPECT_EQ(known[0].pci, "0000:3b:00.0");
  EXPECT_EQ(known[0].minor, 3U);
  EXPECT_EQ(known[0].name, "NVIDIA H200");
  EXPECT_EQ(known[1].uuid, "GPU-22222222-0000-0000-0000-000000000000");
  EXPECT_EQ(known[1].index, 1U);
  // One that the driver has not started yet has no UUID: then NVML is asked for all.
  gpu("0000:6f:00.0", "GPU-" + std::string(8, '?'), "2");
  EXPECT_TRUE(kernel_list(root_.string()).empty());
}

}  // namespace
}  // namespace nccl_check::engine::nccl
