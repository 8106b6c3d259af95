#include "engine/fabric/address.hpp"

#include <gmock/gmock.h>

namespace nccl_check::engine::fabric {
namespace {

using testing::HasSubstr;

TEST(NodeAddress, IsPrintableAndReadBack) {
  const NodeAddress address{"tcp;ofi_rxm",
                            {{2, std::string("\x02\x00\xff\x7f", 4)}, {3, std::string("\0", 1)}}};
  const auto text = write_address(address);
  EXPECT_EQ(text, "fabric1 tcp;ofi_rxm 2:0200ff7f 3:00");
  const auto back = read_address(text);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->provider, address.provider);
  ASSERT_EQ(back->endpoints.size(), 2U);
  EXPECT_EQ(back->endpoints[0].bytes, address.endpoints[0].bytes);
  EXPECT_EQ(back->endpoints[1].format, 3U);
}

struct Bad {
  const char* text;
  const char* why;
};

class Refused : public testing::TestWithParam<Bad> {};

TEST_P(Refused, WithTheReason) {
  const auto read = read_address(GetParam().text);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    NodeAddress, Refused,
    testing::Values(Bad{"", "empty"}, Bad{"fabric2 net 2:00", "another version"},
                    Bad{"rubbish", "another version"}, Bad{"fabric1", "cut off"},
                    Bad{"fabric1 net", "cut off"}, Bad{"fabric1  2:00", "no provider"},
                    Bad{"fabric1 net 2:", "malformed"}, Bad{"fabric1 net :00", "malformed"},
                    Bad{"fabric1 net 2:0", "malformed"}, Bad{"fabric1 net 2:0G", "malformed"},
                    Bad{"fabric1 net 2:0A", "malformed"}, Bad{"fabric1 net -2:00", "malformed"},
                    Bad{"fabric1 net 99999999999:00", "malformed"}, Bad{"fabric1 net 2:00 ", "malformed"},
                    Bad{"fabric1 net 2:00  3:00", "malformed"}));

TEST(NodeAddress, ASizeBeyondTheBoundsIsRefused) {
  std::string many = "fabric1 net";
  for (std::size_t i = 0; i <= most_rails; ++i) many += " 2:00";
  EXPECT_THAT(read_address(many).error().text(), HasSubstr("more than 16"));
  EXPECT_THAT(read_address("fabric1 net 2:" + std::string(4096, '0')).error().text(),
              HasSubstr("longer than 4 KiB"));
  EXPECT_THAT(read_address("fabric1 net 2:" + std::string(2 * most_address_bytes + 2, '0')).error().text(),
              HasSubstr("malformed"));
}

}  // namespace
}  // namespace nccl_check::engine::fabric
