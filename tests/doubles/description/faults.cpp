#include "tests/doubles/description/faults.hpp"

#include <unistd.h>

#include <csignal>
#include <map>
#include <mutex>

namespace nccl_check::doubles {
namespace {

bool fits(int wanted, int is) {
  return wanted == -1 || wanted == is;
}

bool fits(const Fault& fault, Kind kind, Stage stage, const Where& where) {
  if (fault.kind != kind || fault.stage != stage || !fits(fault.nic, where.nic) ||
      !fits(fault.link, where.link))
    return false;
  const bool there = fits(fault.gpu, where.gpu) && fits(fault.peer, where.peer);
  const bool back = where.peer != -1 && fits(fault.gpu, where.peer) && fits(fault.peer, where.gpu);
  return there || back;
}

// How many operations of each GPU each fault has seen.
bool due(const Fault& fault, int gpu) {
  if (fault.after == 0) return true;
  static auto& mutex = *new std::mutex;
  static auto& seen = *new std::map<std::pair<const Fault*, int>, std::uint64_t>;
  const std::lock_guard lock(mutex);
  return ++seen[{&fault, gpu}] > fault.after;
}

}  // namespace

const Fault* strikes(Kind kind, Stage stage, Where where) {
  for (const Fault& fault : description()->faults) {
    if (fits(fault, kind, stage, where) && due(fault, where.gpu)) return &fault;
  }
  return nullptr;
}

double factor(Kind kind, Where where) {
  double product = 1;
  for (const Fault& fault : description()->faults) {
    if (fits(fault, kind, Stage::none, where) && due(fault, where.gpu)) product *= fault.factor;
  }
  return product;
}

const Fault* standing(Kind kind, Where where) {
  for (const Fault& fault : description()->faults) {
    if (fits(fault, kind, fault.stage, where)) return &fault;
  }
  return nullptr;
}

void crash(Stage stage, Where where) {
  if (strikes(Kind::crash, stage, where) != nullptr) std::raise(SIGSEGV);
}

void hang_or_crash(Stage stage, Where where) {
  crash(stage, where);
  if (strikes(Kind::hang, stage, where) == nullptr) return;
  while (true) ::pause();
}

}  // namespace nccl_check::doubles
