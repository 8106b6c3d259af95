#pragma once
// Children with a deadline: started in a process group of their own that dies with its parent, killed as a
// group, reaped.
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace nccl_check {

struct Command {
  std::string program;                   // an absolute path
  std::vector<std::string> arguments;    // without the program's own name
  std::vector<std::string> environment;  // "NAME=value": all the child gets
  // Descriptors that the child finds at fixed numbers (child number, ours); 0, 1 and 2 that are not named are
  // /dev/null.
  std::vector<std::pair<int, int>> descriptors;
  // Runs in the child before exec, only async-signal-safe calls; returns 0 or an errno, which start()
  // reports.
  std::function<int()> prepare;
};

struct Exit {
  int code = 0;    // exit status, where signal is 0
  int signal = 0;  // what killed it
  [[nodiscard]] bool clean() const { return code == 0 && signal == 0; }
  [[nodiscard]] std::string text() const;  // "exit status 3", "killed by signal 9 (Killed)"
};

class Child {
 public:
  static Result<Child> start(const Command& command);
  Child() = default;
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), exit_(other.exit_) {}
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills the group and waits at most half a second

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running();  // reaps it if it has ended
  [[nodiscard]] std::optional<Exit> exit() const { return exit_; }
  std::optional<Exit> wait(Deadline deadline);  // nothing: it still runs
  // SIGTERM to the group, SIGCONT so that a stopped one hears it, then after `grace` SIGKILL; reaps. Nothing:
  // it can't be killed (uninterruptible sleep).
  std::optional<Exit> end(Clock::duration grace);

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<Exit> exit_;
};

struct Finished {
  Exit exit;
  bool timed_out = false;
  std::string out;    // at most `most_bytes`; more counts as an error of the child
  std::string error;  // its stderr, cut at 4 KiB
};

// Runs a program to its end, or to the deadline and kills it then. `input` goes to its stdin.
Result<Finished> run(Command command, const std::string& input, Deadline deadline,
                     std::size_t most_bytes = 1 << 20);

}  // namespace nccl_check
