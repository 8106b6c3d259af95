#include "node/gpu_files.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "node/confinement.hpp"

namespace nccl_check::node {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Node : public testing::Test {
 protected:
  Node() {
    char name[] = "/tmp/nccl-check-node.XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ + "/dev");
  }
  ~Node() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(Node, WithoutADriverThereIsNothingToMake) {
  write("/proc/devices", "Character devices:\n  1 mem\n");
  EXPECT_TRUE(make_gpu_files(root_, Deadline::in(Milliseconds(100))).ok());
  EXPECT_TRUE(fs::is_empty(root_ + "/dev"));
}

TEST_F(Node, AModuleThatIsNotLoadedIsNamed) {
  write("/proc/devices", "Character devices:\n195 nvidia\n");
  const auto made = make_gpu_files(root_, Deadline::in(Milliseconds(100)));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().text(), HasSubstr("nvidia-uvm is not loaded"));
}

TEST_F(Node, EveryMissingFileIsMadeByItsNumbers) {
  if (::geteuid() != 0) GTEST_SKIP() << "making device files takes root";
  write("/proc/devices", "Character devices:\n195 nvidia-frontend\n505 nvidia-uvm\n\nBlock devices:\n");
  write("/proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: X\nDevice Minor: \t 0\n");
  write("/proc/driver/nvidia/gpus/0000:5d:00.0/information", "Model: X\nDevice Minor: \t 3\n");
  const auto made = make_gpu_files(root_, Deadline::in(Milliseconds(100)));
  ASSERT_TRUE(made.ok()) << made.error().text();
  const std::pair<const char*, dev_t> files[] = {{"nvidiactl", ::makedev(195, 255)},
                                                 {"nvidia0", ::makedev(195, 0)},
                                                 {"nvidia3", ::makedev(195, 3)},
                                                 {"nvidia-uvm", ::makedev(505, 0)},
                                                 {"nvidia-uvm-tools", ::makedev(505, 1)}};
  for (const auto& [name, number] : files) {
    struct stat status {};
    ASSERT_EQ(::stat((root_ + "/dev/" + name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_rdev, number) << name;
    EXPECT_EQ(status.st_mode & 0777U, 0666U) << name;
  }
}

TEST_F(Node, AnUnconfinedProcessStaysWhereItIs) {
  write("/proc/self/cgroup", "0::/system.slice/slurmd.service\n");
  write("/sys/fs/cgroup/cpuset.cpus.effective", "0-63\n");
  write("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-63\n");
  write("/sys/fs/cgroup/system.slice/slurmd.service/memory.max", "max\n");
  EXPECT_THAT(ways_out(root_), IsEmpty());
}

TEST_F(Node, FewerCoresOrLittleMemoryAreLeft) {
  const std::string out = root_ + "/sys/fs/cgroup/cgroup.procs";
  write("/proc/self/cgroup", "0::/system.slice/slurmd.service/system\n");
  write("/sys/fs/cgroup/cpuset.cpus.effective", "0-63\n");
  write("/sys/fs/cgroup/system.slice/slurmd.service/system/cpuset.cpus.effective", "62-63\n");
  EXPECT_THAT(ways_out(root_), ElementsAre(out));
  write("/sys/fs/cgroup/system.slice/slurmd.service/system/cpuset.cpus.effective", "0-63\n");
  EXPECT_THAT(ways_out(root_), IsEmpty());
  write("/sys/fs/cgroup/system.slice/slurmd.service/memory.max", "4294967296\n");
  EXPECT_THAT(ways_out(root_), ElementsAre(out));
}

TEST_F(Node, InVersionOneItsControllersAreLeft) {
  write("/proc/self/cgroup",
        "9:cpuset:/slurm/system\n4:memory:/slurm/system\n2:freezer:/x\n1:name=systemd:/y\n");
  EXPECT_THAT(ways_out(root_), ElementsAre(root_ + "/sys/fs/cgroup/cpuset/cgroup.procs",
                                           root_ + "/sys/fs/cgroup/memory/cgroup.procs"));
}

}  // namespace
}  // namespace nccl_check::node
