#pragma once
// What an admin reads later: stderr (slurmd's log, a terminal) and the system's log. Never blocks: a log daemon that is
// stopped must not hold up a prolog, so the line is dropped there instead.
#include <string_view>

namespace nccl_check {

enum class Level { error = 3, warning = 4, notice = 5, info = 6 };  // syslog(3)'s numbers

void log(Level level, std::string_view text);
void log_to_system(bool on);  // off: stderr alone (a person at a terminal); on from the start for gate

}  // namespace nccl_check
