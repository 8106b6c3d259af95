#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/nccl/communicator.hpp"
#include "engine/nccl/cuda_api.hpp"
#include "engine/nccl/cuda_errors.hpp"
#include "engine/nccl/nccl_api.hpp"

namespace nccl_check::engine::nccl {
namespace {

using testing::HasSubstr;
using verdict::Class;

TEST(CudaErrors, HaveClassesAndRemedies) {
  const auto of = [](int code) {
    return cuda_failure(code, "NAME", "making a context", "GPU 1 (0000:3b:00.0)");
  };
  for (const int code : {100, 101, 214, 220, 700, 715, 719, 802, 803, 999})
    EXPECT_EQ(of(code).cls, Class::broken) << code;
  for (const int code : {2, 46, 209, 222, 805}) EXPECT_EQ(of(code).cls, Class::untested) << code;
  EXPECT_THAT(of(802).error.what, HasSubstr("fabric manager"));
  EXPECT_THAT(of(802).error.what, HasSubstr("NAME, 802"));
  EXPECT_THAT(of(802).error.what, HasSubstr("making a context"));
  EXPECT_EQ(of(802).error.where, "GPU 1 (0000:3b:00.0)");
  EXPECT_FALSE(of(999).error.remedy.empty());
}

TEST(CudaErrors, AnUnknownOneIsUntestedWithItsNumber) {
  const auto failure = cuda_failure(4711, "", "copying", "GPU 0");
  EXPECT_EQ(failure.cls, Class::untested);
  EXPECT_THAT(failure.error.what, HasSubstr("4711"));
}

TEST(NcclErrors, OnlyAWholeNodesOwnCudaErrorIsBroken) {
  EXPECT_EQ(nccl_failure(ncclUnhandledCudaError, "cuda", "", true, "all_reduce", "GPU 0").cls, Class::broken);
  EXPECT_EQ(nccl_failure(ncclUnhandledCudaError, "cuda", "", false, "all_reduce", "GPU 0").cls,
            Class::untested);
  const auto failure =
      nccl_failure(ncclSystemError, "unhandled system error", "Connection refused\n", true, "init", "GPU 0");
  EXPECT_EQ(failure.cls, Class::untested);
  EXPECT_THAT(failure.error.what, HasSubstr("unhandled system error (2): Connection refused"));
}

TEST(Versions, Texts) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  EXPECT_EQ(nccl_version_text(22803), "2.28.3");
  EXPECT_EQ(nccl_version_text(21805), "2.18.5");
  EXPECT_EQ(nccl_version_text(2804), "2.8.4");
}

TEST(Versions, TooOldOnesAreNamed) {
  EXPECT_TRUE(driver_fits(13010, 13000).ok());
  EXPECT_TRUE(driver_fits(13000, 13020).ok());  // minor version compatibility
  EXPECT_TRUE(driver_fits(14000, 13000).ok());
  const auto old = driver_fits(12090, 13000);
  ASSERT_FALSE(old.ok());
  EXPECT_THAT(old.error().what, HasSubstr("12.9"));
  EXPECT_THAT(old.error().what, HasSubstr("13.0"));
  EXPECT_TRUE(nccl_fits(21801, "").ok());
  EXPECT_FALSE(nccl_fits(21700, "").ok());
  EXPECT_FALSE(nccl_fits(2804, "").ok());
}

}  // namespace
}  // namespace nccl_check::engine::nccl
