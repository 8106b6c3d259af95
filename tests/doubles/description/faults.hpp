#pragma once
// Which fault strikes what happens now.
#include "tests/doubles/description/description.hpp"

namespace nccl_check::doubles {

// What an operation touches; -1 fits every fault that names none.
struct Where {
  int gpu = -1;
  int peer = -1;
  int nic = -1;
  int link = -1;
};

// The first fault that fits and is due. Counts the operation towards `after`.
const Fault* strikes(Kind kind, Stage stage, Where where);
// The product of the factors of all that fit. Counts likewise.
double factor(Kind kind, Where where);
// For what is looked up and not happened upon: without counting.
const Fault* standing(Kind kind, Where where);

// Hangs for good, or raises SIGSEGV, where a fault says so. For calls that can't be aborted.
void hang_or_crash(Stage stage, Where where);
void crash(Stage stage, Where where);

}  // namespace nccl_check::doubles
