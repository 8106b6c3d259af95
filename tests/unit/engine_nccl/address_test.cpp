#include "engine/nccl/address.hpp"

#include <gtest/gtest.h>

namespace nccl_check::engine::nccl {
namespace {

WorkerAddress sample() {
  WorkerAddress out{8, {}};
  for (std::size_t i = 0; i < ids_in_address; ++i) {
    auto& id = out.ids.emplace_back();
    for (std::size_t k = 0; k < id.size(); ++k) id[k] = static_cast<char>(k * 7 + i);
  }
  return out;
}

TEST(Address, ComesBackAsItWas) {
  const auto text = write_address(sample());
  EXPECT_LE(text.size(), 4096U);
  const auto back = read_address(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->gpus, 8);
  EXPECT_EQ(back->ids, sample().ids);
}

TEST(Address, RefusesWhatIsNotOne) {
  const auto good = write_address(sample());
  EXPECT_FALSE(read_address("").ok());
  EXPECT_FALSE(read_address("fabric1 net 2:00").ok());
  EXPECT_FALSE(read_address("nccl1 8").ok());
  EXPECT_FALSE(read_address("nccl1 0" + good.substr(7)).ok());
  EXPECT_FALSE(read_address("nccl1 65" + good.substr(7)).ok());
  EXPECT_FALSE(read_address("nccl1 x" + good.substr(7)).ok());
  EXPECT_FALSE(read_address(good.substr(0, good.size() - 1)).ok());
  EXPECT_FALSE(read_address(good.substr(0, good.size() - 2)).ok());
  EXPECT_FALSE(read_address(good + " " + std::string(5000, '0')).ok());
}

}  // namespace
}  // namespace nccl_check::engine::nccl
