#include "worker/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.hpp"
#include "base/units.hpp"
#include "engine/json.hpp"

namespace nccl_check::worker {
namespace {

using nlohmann::json;
// The worker keeps the command's own limit; only one that can't is cut off, this much later.
constexpr auto beyond_limit = Milliseconds(300);

std::string command(const char* what, json object, Clock::duration limit) {
  object["do"] = what;
  object["ms"] = std::chrono::ceil<Milliseconds>(limit).count();
  return object.dump();
}

// As a job has it: every CPU (a prolog may inherit slurmd's own few), memory that can be registered, no core
// file.
int become_unprivileged(const Options& options) {
  const auto& identity = options.identity;
  const auto most_memory = options.most_memory;
  for (const auto& way : options.ways_out) {  // before the affinity, which a cgroup bounds
    UniqueFd file(::open(way.c_str(), O_WRONLY | O_CLOEXEC));
    if (file && ::write(file.get(), "0", 1) != 1)
      continue;  // then it stays where it is, and is the slower for it
  }
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all,
                      &all);  // the kernel leaves what a cgroup allows; a failure leaves it as it was
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  const rlimit none{0, 0};
  if (identity) ::setrlimit(RLIMIT_MEMLOCK, &unlimited);
  ::setrlimit(RLIMIT_CORE, &none);
  if (most_memory > 0) {
    const rlimit cap{most_memory, most_memory};
    ::setrlimit(RLIMIT_DATA, &cap);
  }
  if (identity) {
    if (::setgroups(0, nullptr) != 0) return errno;
    if (::setresgid(identity->gid, identity->gid, identity->gid) != 0) return errno;
    if (::setresuid(identity->uid, identity->uid, identity->uid) != 0) return errno;
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return 0;
}

}  // namespace

Result<Identity> find_identity(const std::string& user) {
  std::FILE* file = std::fopen("/etc/passwd", "re");
  if (file == nullptr) return Error{std::strerror(errno), "/etc/passwd", ""};
  std::optional<Identity> found;
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* got = nullptr;
  while (!found && ::fgetpwent_r(file, &entry, buffer.data(), buffer.size(), &got) == 0)
    if (user == entry.pw_name) found = Identity{entry.pw_uid, entry.pw_gid};
  std::fclose(file);
  if (!found)
    return Error{fmt::format("the worker's user '{}' is not in /etc/passwd", printable(user)),
                 "[worker] user",
                 fmt::format("make it: useradd --system --no-create-home --shell /usr/sbin/nologin {}",
                             printable(user))};
  if (found->uid == 0)
    return Error{fmt::format("the worker's user '{}' is root", printable(user)), "[worker] user",
                 "name a user of its own without rights"};
  return *found;
}

std::vector<std::string> clean_environment(const char* const* environment) {
  // What a user controls in a prolog (SPANK_*) is none of these.
  constexpr std::array<std::string_view, 4> families{"NCCL_", "FI_", "CUDA_", "UCX_"};
  std::vector<std::string> out{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"};
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry)
    for (auto family : families)
      if (std::string_view(*entry).starts_with(family)) out.emplace_back(*entry);
  return out;
}

Result<WorkerProcess> WorkerProcess::start(const Options& options) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return Error{fmt::format("cannot make a socket pair: {}", std::strerror(errno)), "the worker", ""};
  WorkerProcess worker;
  worker.socket_.reset(ends[0]);
  UniqueFd theirs(ends[1]);
  Command command{options.program, {"worker"}, options.environment, {{socket_fd, theirs.get()}}, {}};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  command.descriptors.emplace_back(STDERR_FILENO, STDERR_FILENO);  // reports would be lost in /dev/null
#endif
  command.prepare = [&options] { return become_unprivileged(options); };
  auto child = Child::start(command);
  if (!child) return child.error();
  worker.child_ = std::move(*child);
  worker.open_limit_ = options.open_limit;
  worker.silence_limit_ = options.silence_limit;
  worker.last_sign_ = worker.began_ = Clock::now();
  worker.limit_ = worker.began_ + options.open_limit;
  return worker;
}

void WorkerProcess::open(const engine::Settings& settings, Clock::duration limit) {
  say(command("open", {{"settings", settings}}, limit), "open", limit, true);
}
void WorkerProcess::measure_alone(const engine::Task& task, Clock::duration limit) {
  say(command("alone", {{"task", task}}, limit), verdict::name(task.operation).data(), limit, true);
}
void WorkerProcess::connect(const engine::Place& place, Clock::duration limit) {
  say(command("connect", {{"place", place}}, limit), "connect", limit, false);
}
void WorkerProcess::measure(const engine::Task& task, Clock::duration limit) {
  say(command("measure", {{"task", task}}, limit), verdict::name(task.operation).data(), limit, false);
}

void WorkerProcess::say(const std::string& line, const char* stage, Clock::duration limit, bool alone) {
  alone_ = alone;
  stage_ = stage;
  busy_ = true;
  began_ = last_sign_ = Clock::now();
  limit_ = began_ + limit;
  // Commands are far smaller than a socket's buffer, so this does not block; a worker that reads nothing is
  // found by its silence.
  const std::string text = line + "\n";
  if (::send(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(text.size()))
    limit_ = began_;  // it is dead or stuck: let advance() find out which
}

Failed WorkerProcess::failed(verdict::Class cls, const std::string& text, bool local) const {
  return {cls, stage_, text, local};
}

Deadline WorkerProcess::next_check() const {
  const auto silence = last_sign_ + (stage_ == "open" || stage_ == "start" ? open_limit_ : silence_limit_);
  if (over_) return Deadline::in(std::chrono::hours(1));
  return Deadline(busy_ ? std::min(silence, limit_ + beyond_limit) : Clock::now() + Milliseconds(500));
}

void WorkerProcess::take(const std::string& line, std::vector<Event>& events) {
  last_sign_ = Clock::now();
  try {
    const auto j = json::parse(line);
    if (j.contains("beat") || j.contains("stage")) return;
    busy_ = false;
    if (j.contains("opened")) {
      events.emplace_back(Opened{j["opened"].get<engine::Opened>()});
    } else if (j.contains("connected")) {
      events.emplace_back(Connected{j["connected"].get<engine::Connected>()});
    } else if (j.contains("figures")) {
      events.emplace_back(MeasuredAlone{j["figures"].get<std::vector<engine::Figure>>()});
    } else if (j.contains("samples")) {
      events.emplace_back(Measured{j["samples"].get<engine::Samples>()});
    } else {
      const auto failure = j.at("failed").get<engine::Failure>();
      // Waiting for peers, or losing them, may be the peers' fault; all else is this node's.
      const bool local = alone_ || failure.cls == verdict::Class::broken;
      over_ = true;
      events.emplace_back(failed(failure.cls, failure.error.text(), local));
    }
  } catch (const std::exception& e) {
    over_ = true;
    events.emplace_back(failed(verdict::Class::untested,
                               fmt::format("the worker said what does not fit: {}", printable(e.what())),
                               true));
  }
}

std::vector<Event> WorkerProcess::advance() {
  std::vector<Event> events;
  std::array<char, 65'536> buffer{};
  bool closed = false;
  for (;;) {
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    if (n == 0 || !lines_.add({buffer.data(), static_cast<std::size_t>(n)})) {
      closed = true;
      break;
    }
  }
  while (auto line = lines_.next())
    if (!over_) take(*line, events);
  if (over_) return events;
  const auto now = Clock::now();
  if (closed || !child_.running()) {
    over_ = true;
    const auto exit = child_.wait(Deadline::in(Milliseconds(200)));
    events.emplace_back(failed(verdict::Class::untested,
                               fmt::format("the worker ended in stage {}: {}", stage_,
                                           exit ? exit->text() : std::string("it closed its socket")),
                               true));
  } else if (busy_ &&
             now >= last_sign_ + (stage_ == "open" || stage_ == "start" ? open_limit_ : silence_limit_)) {
    over_ = true;
    events.emplace_back(
        failed(verdict::Class::hung,
               fmt::format("in {}, no sign of life for {}", stage_, format_seconds(now - last_sign_)), true));
  } else if (busy_ && now >= limit_ + beyond_limit) {
    over_ = true;
    events.emplace_back(failed(verdict::Class::hung,
                               fmt::format("in {}, after {}", stage_, format_seconds(now - began_)), false));
  }
  return events;
}

void WorkerProcess::end() {
  socket_.reset();
  child_.end(Milliseconds(50));
  over_ = true;
}

}  // namespace nccl_check::worker
