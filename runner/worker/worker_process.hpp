#pragma once
// A gate's side of its worker: started unprivileged in a process group of its own, watched, killed, reaped.
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/process.hpp"
#include "engine/engine.hpp"
#include "worker/protocol.hpp"

namespace nccl_check::worker {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
};
// From /etc/passwd alone: a system user is local, and a directory service could block a prolog. uid 0 is
// refused.
Result<Identity> find_identity(const std::string& user);

struct Options {
  std::string program;  // this program's own path
  std::optional<Identity>
      identity;                   // nothing: stays who we are (a step's check runs as the job's user already)
  std::uint64_t most_memory = 0;  // bytes of its address space's data; 0: no cap
  std::vector<std::string>
      ways_out;  // files it writes "0" to before it gives up its rights: node::ways_out()
  std::vector<std::string> environment;  // all of it, see clean_environment()
  Clock::duration open_limit =
      std::chrono::seconds(5);  // without a sign of life in open(), which may load slow libraries
  Clock::duration silence_limit =
      std::chrono::seconds(2);  // without a sign of life in any other stage: the node itself hangs
};

// PATH and what a prolog's own environment holds of the names that an engine may see (NCCL_*, FI_*, CUDA_*,
// UCX_*, LANG...).
std::vector<std::string> clean_environment(const char* const* environment);

// What the worker said, or what became of it.
struct Opened {
  engine::Opened opened;
};
struct Connected {
  engine::Connected connected;
};
struct MeasuredAlone {
  std::vector<engine::Figure> figures;
};
struct Measured {
  engine::Samples samples;
};
struct Failed {
  verdict::Class cls;
  std::string stage;
  std::string text;
  bool
      local;  // the cause lies in this node: it crashed, it gave no sign of life, its devices can't be opened
};
using Event = std::variant<Opened, Connected, MeasuredAlone, Measured, Failed>;

class WorkerProcess {
 public:
  static Result<WorkerProcess> start(const Options& options);

  void open(const engine::Settings& settings, Clock::duration limit);
  void measure_alone(const engine::Task& task, Clock::duration limit);
  void connect(const engine::Place& place, Clock::duration limit);
  void measure(const engine::Task& task, Clock::duration limit);

  [[nodiscard]] int fd() const { return socket_.get(); }  // readable: call advance()
  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] Deadline next_check() const;  // call advance() by then at the latest
  std::vector<Event> advance();               // never blocks
  void end();                                 // SIGTERM, 50 ms, SIGKILL; reaps

 private:
  void say(const std::string& line, const char* stage, Clock::duration limit, bool alone);
  void take(const std::string& line, std::vector<Event>& events);
  Failed failed(verdict::Class cls, const std::string& text, bool local) const;

  Child child_;
  UniqueFd socket_;
  LineReader lines_;
  Clock::duration open_limit_{}, silence_limit_{};
  std::string stage_ = "start";
  bool busy_ = false;            // a command is under way
  bool alone_ = false;           // it needs no peer
  bool over_ = false;            // a failure was reported, nothing more comes
  Clock::time_point began_;      // of the stage
  Clock::time_point last_sign_;  // of life
  Clock::time_point limit_;      // for the command; the worker itself answers before, unless it hangs
};

}  // namespace nccl_check::worker
