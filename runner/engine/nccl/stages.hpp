#pragma once
// Where the time goes: each stage's begin and length, to stderr while NCCL_CHECK_STAGES is set.
#include <string>

#include "base/deadline.hpp"

namespace nccl_check::engine::nccl {

// A stage that lasts as long as this object. Any thread.
class Stage {
 public:
  explicit Stage(std::string name) : name_(std::move(name)), begin_(Clock::now()) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  std::string name_;
  Clock::time_point begin_;
};

}  // namespace nccl_check::engine::nccl
