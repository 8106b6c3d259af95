#include "engine/nccl/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/engine.hpp"

namespace nccl_check::engine::nccl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr Wanted wanted{"NCCL", "libnccl-that-is-not-there.so.2", "install it"};

class LibraryFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("nccl_check_library." + std::to_string(::getpid()));
    fs::create_directories(folder_);
    ::chmod(folder_.c_str(), 0755);
    std::ofstream(file()) << "no library";
    ::chmod(file().c_str(), 0644);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string file() const { return (folder_ / "libx.so").string(); }

  fs::path folder_;
};

TEST(Trusted, RootsOrOnesOwnAndNobodyElseWrites) {
  EXPECT_TRUE(trusted(0, 0755, 0));
  EXPECT_TRUE(trusted(0, 0755, 1000));
  EXPECT_TRUE(trusted(1000, 0755, 1000));
  EXPECT_FALSE(trusted(1000, 0755, 0));
  EXPECT_FALSE(trusted(1001, 0755, 1000));
  EXPECT_FALSE(trusted(0, 0775, 0));
  EXPECT_FALSE(trusted(0, 0757, 0));
}

TEST_F(LibraryFile, WritableByOthersIsRefusedByPathOwnerAndMode) {
  ASSERT_TRUE(trusted_path(file()).ok());
  ::chmod(file().c_str(), 0666);
  auto opened = open_library(wanted, file());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().text(), HasSubstr(file()));
  EXPECT_THAT(opened.error().text(), HasSubstr("mode 0666"));
  EXPECT_THAT(opened.error().text(), HasSubstr("uid " + std::to_string(::geteuid())));
  ::chmod(file().c_str(), 0644);
  ::chmod(folder_.c_str(), 0777);
  auto folder = open_library(wanted, file());
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.error().text(), HasSubstr("the folder is owned"));
}

TEST_F(LibraryFile, ALinkIsJudgedByWhereItLeads) {
  const auto link = (folder_ / "link.so").string();
  fs::create_symlink(file(), link);
  auto path = trusted_path(link);
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(*path, fs::canonical(file()).string());
  ::chmod(file().c_str(), 0666);
  EXPECT_FALSE(trusted_path(link).ok());
}

TEST_F(LibraryFile, MissingAndWrongOnesSaySo) {
  auto missing = open_library(wanted, "");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().text(), HasSubstr("libnccl-that-is-not-there.so.2"));
  EXPECT_EQ(missing.error().remedy, "install it");
  auto garbage = open_library(wanted, file());
  ASSERT_FALSE(garbage.ok());
  EXPECT_THAT(garbage.error().text(), HasSubstr("NCCL could not be opened"));
  EXPECT_FALSE(open_library(wanted, "/nowhere/libnccl.so.2").ok());
}

TEST(Engine, WithoutADriverIsUntestedAndSaysWhatIsMissing) {
  auto engine = make_nccl_engine({});
  Settings settings;
  settings.cuda_library = "/nowhere/libcuda.so.1";
  settings.library = "/nowhere/libnccl.so.2";
  auto opened = engine->open(settings, Deadline::in(Milliseconds(10000)));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.failure().cls, verdict::Class::untested);
  EXPECT_THAT(opened.failure().error.text(), HasSubstr("/nowhere/"));
  EXPECT_FALSE(engine->measure_alone({}, Deadline::in(Milliseconds(1000))).ok());
}

}  // namespace
}  // namespace nccl_check::engine::nccl
