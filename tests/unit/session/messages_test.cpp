#include "job/session/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nccl_check::job {
namespace {

using testing::HasSubstr;

TEST(Messages, AddressesMayHoldAnyBytes) {
  Measure measure;
  measure.id = 7;
  measure.task.operation = verdict::Operation::send_recv;
  measure.task.bytes = 1U << 20U;
  measure.task.partner = std::string("\0\xff\n\"{", 5);
  const auto back = decode<Measure>(encode(measure));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->task.partner, measure.task.partner);
  EXPECT_EQ(back->task.operation, verdict::Operation::send_recv);
}

TEST(Messages, AMissingFieldIsNamed) {
  const auto bad = decode<Measure>(R"({"id":1,"limit_ms":5})");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().text(), HasSubstr("task"));
}

TEST(Messages, OutOfRangeIsRefused) {
  Measure measure;
  measure.task.iterations = 1'000'000;
  EXPECT_FALSE(decode<Measure>(encode(measure)).ok());
  Answer answer;
  answer.samples.times = {Nanoseconds(0)};
  EXPECT_FALSE(decode<Answer>(encode(answer)).ok());
}

TEST(Messages, CutOffAnywhereIsRefused) {
  Connect connect{3, {1, 4, "abc", "def", ""}, 2000};
  const auto whole = encode(connect);
  ASSERT_TRUE(decode<Connect>(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(decode<Connect>(whole.substr(0, n)).ok()) << n;
}

TEST(Messages, TextThatIsNoUtf8IsReplacedNotThrown) {
  const Failed failed{1, verdict::Class::hung, "open", "\xff\xfe", true};
  const auto back = decode<Failed>(encode(failed));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->cls, verdict::Class::hung);
}

}  // namespace
}  // namespace nccl_check::job
