#include "engine/nccl/stages.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace nccl_check::engine::nccl {
namespace {

const Clock::time_point start = Clock::now();  // of the process, but for the loader's part

double ms(Clock::duration t) {
  return std::chrono::duration<double, std::milli>(t).count();
}

}  // namespace

Stage::~Stage() {
  static const bool shown = std::getenv("NCCL_CHECK_STAGES") != nullptr;
  if (!shown) return;
  const auto line =
      fmt::format("stage {:8.1f} ms {:+9.1f} ms  {}\n", ms(begin_ - start), ms(Clock::now() - begin_), name_);
  // One write: lines of several threads don't mix. Whether it arrives matters to nobody.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace nccl_check::engine::nccl
