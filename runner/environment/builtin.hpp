#pragma once
// The rules that come with the program. Each adds to the plan what it sets or leaves out, with the source of
// its numbers.
#include "environment/choice.hpp"
#include "environment/plan.hpp"

namespace nccl_check::environment {

void set_sockets(const node::Facts& facts, const Situation& situation, Plan& plan);
void set_verbs(const node::Facts& facts, const Situation& situation, Plan& plan);
void set_slingshot(const node::Facts& facts, const Situation& situation, Plan& plan);
void set_efa(const node::Facts& facts, const Situation& situation, Plan& plan);
// The limits and modules without which RDMA is slow or fails: noted, since no variable mends them.
void note_limits(const node::Facts& facts, Plan& plan);

}  // namespace nccl_check::environment
