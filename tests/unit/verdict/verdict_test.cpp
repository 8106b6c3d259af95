#include "verdict/verdict.hpp"

#include <gtest/gtest.h>

namespace nccl_check::verdict {
namespace {

using namespace std::chrono_literals;

constexpr Class classes[] = {Class::pass,   Class::slow,       Class::hung,    Class::corrupt,
                             Class::broken, Class::mismatched, Class::untested};

TEST(Verdict, NamesAreReadBackAndNothingElseIs) {
  for (const Class c : classes) {
    Class read = c == Class::pass ? Class::slow : Class::pass;
    EXPECT_TRUE(parse(name(c), read));
    EXPECT_EQ(read, c);
  }
  for (const Action a : {Action::allow, Action::warn, Action::fail_job, Action::strike, Action::drain}) {
    Action read = a == Action::allow ? Action::drain : Action::allow;
    EXPECT_TRUE(parse(name(a), read));
    EXPECT_EQ(read, a);
  }
  for (const Operation op :
       {Operation::all_reduce, Operation::all_gather, Operation::send_recv, Operation::memory_copy}) {
    Operation read = op == Operation::all_reduce ? Operation::all_gather : Operation::all_reduce;
    EXPECT_TRUE(parse(name(op), read));
    EXPECT_EQ(read, op);
  }
  Operation op{};
  EXPECT_TRUE(parse("send_recv", op));
  EXPECT_EQ(op, Operation::send_recv);
  EXPECT_TRUE(parse("memory_copy", op));
  EXPECT_EQ(op, Operation::memory_copy);
  Class c = Class::hung;
  EXPECT_FALSE(parse("Slow", c));
  EXPECT_FALSE(parse("", c));
  EXPECT_EQ(c, Class::hung);
  Action a = Action::warn;
  EXPECT_FALSE(parse("fail_job", a));
  EXPECT_FALSE(parse("alltoall", op));
}

TEST(Verdict, ExitCodesAreTheContracts) {
  EXPECT_EQ(exit_code(Class::pass), 0);
  EXPECT_EQ(exit_code(Class::slow), 1);
  EXPECT_EQ(exit_code(Class::hung), 3);
  EXPECT_EQ(exit_code(Class::corrupt), 4);
  EXPECT_EQ(exit_code(Class::broken), 5);
  EXPECT_EQ(exit_code(Class::mismatched), 6);
  EXPECT_EQ(exit_code(Class::untested), 7);
}

TEST(Verdict, GravityIsATotalOrder) {
  constexpr Class order[] = {Class::pass, Class::untested, Class::mismatched, Class::slow,
                             Class::hung, Class::broken,   Class::corrupt};
  for (std::size_t i = 0; i < std::size(order); ++i) {
    for (std::size_t j = 0; j < std::size(order); ++j)
      EXPECT_EQ(worse(order[i], order[j]), order[std::max(i, j)]) << i << " " << j;
  }
}

TEST(Verdict, BusBandwidthIsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::send_recv, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 1), 0);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_gather, 1), 0);
  EXPECT_DOUBLE_EQ(algbw(1'000'000'000, 1s), 1);
  EXPECT_DOUBLE_EQ(algbw(1'000'000'000, 0s), 0);
  EXPECT_DOUBLE_EQ(busbw(Operation::all_reduce, 4, 1'000'000'000, 500ms), 3);
}

}  // namespace
}  // namespace nccl_check::verdict
