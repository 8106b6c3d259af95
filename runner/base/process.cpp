#include "base/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace nccl_check {
namespace {

constexpr int first_free_fd =
    64;  // descriptors are parked from here on while the child's own numbers are set up

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Everything between fork and exec. Returns the errno of what failed.
int become(const Command& command, pid_t parent, char* const* argv, char* const* envp) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (::getppid() != parent) return ESRCH;  // it died before the line above
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s = 1; s < 32; ++s) ::signal(s, SIG_DFL);
  std::array<std::pair<int, int>, 16> parked{};
  std::size_t count = 0;
  for (const auto& [number, ours] : command.descriptors) {
    if (count == parked.size()) return E2BIG;
    const int copy = ::fcntl(ours, F_DUPFD, first_free_fd);
    if (copy < 0) return errno;
    parked[count++] = {number, copy};
  }
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) return errno;
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  int highest = 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (::dup2(parked[i].second, parked[i].first) < 0) return errno;
    highest = std::max(highest, parked[i].first);
  }
  // Numbers below `highest` that were not asked for are closed one by one, the rest at once.
  for (int fd = 3; fd < highest; ++fd) {
    bool wanted = false;
    for (std::size_t i = 0; i < count; ++i) wanted = wanted || parked[i].first == fd;
    if (!wanted) ::close(fd);
  }
  // CLOEXEC rather than closed, so that a failed exec can still be reported.
  if (::syscall(SYS_close_range, highest + 1, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) != 0)
    for (int fd = highest + 1; fd < 65'536; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (command.prepare) {
    const int failed = command.prepare();
    if (failed != 0) return failed;
    // A change of identity clears it.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
    if (::getppid() != parent) return ESRCH;
  }
  ::execve(command.program.c_str(), argv, envp);
  return errno;
}

Exit exit_of(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace

std::string Exit::text() const {
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit status {}", code);
}

Result<Child> Child::start(const Command& command) {
  std::vector<std::string> arguments{command.program};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  const auto argv = pointers(arguments);
  const auto envp = pointers(command.environment);
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0)
    return Error{fmt::format("cannot make a pipe: {}", std::strerror(errno)), command.program, ""};
  UniqueFd read_end(failure[0]);
  // Parked high, so that the child's own descriptors do not land on it.
  UniqueFd write_end(::fcntl(failure[1], F_DUPFD_CLOEXEC, 4 * first_free_fd));
  ::close(failure[1]);
  if (!write_end)
    return Error{fmt::format("cannot park a pipe: {}", std::strerror(errno)), command.program, ""};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{fmt::format("cannot fork: {}", std::strerror(errno)), command.program, ""};
  if (pid == 0) {
    const int code = become(command, parent, argv.data(), envp.data());
    [[maybe_unused]] ssize_t n = ::write(write_end.get(), &code, sizeof code);
    ::_exit(127);
  }
  ::setpgid(pid, pid);  // whoever comes first
  write_end.reset();
  int code = 0;
  ssize_t n = 0;
  do {
    n = ::read(read_end.get(), &code, sizeof code);
  } while (n < 0 && errno == EINTR);
  Child child(pid);
  if (n == static_cast<ssize_t>(sizeof code)) {
    child.end(Clock::duration::zero());
    return Error{fmt::format("cannot start: {}", std::strerror(code)), command.program, ""};
  }
  return child;
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    if (pid_ > 0) end(Clock::duration::zero());
    pid_ = std::exchange(other.pid_, -1);
    exit_ = other.exit_;
  }
  return *this;
}

Child::~Child() {
  if (pid_ > 0) end(Clock::duration::zero());
}

bool Child::running() {
  if (pid_ <= 0) return false;
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return true;
  if (got == pid_) exit_ = exit_of(status);
  // What it left behind in its group goes with it.
  ::kill(-pid_, SIGKILL);
  pid_ = -1;
  return false;
}

std::optional<Exit> Child::wait(Deadline deadline) {
  // pidfd, so that the wait neither spins nor needs a SIGCHLD handler.
  const UniqueFd handle(pid_ > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)) : -1);
  while (running() && !deadline.passed()) {
    if (handle) {
      pollfd one{handle.get(), POLLIN, 0};
      ::poll(&one, 1, deadline.poll_ms());
    } else {
      ::poll(nullptr, 0, std::min(deadline.poll_ms(), 5));
    }
  }
  return exit_;
}

std::optional<Exit> Child::end(Clock::duration grace) {
  if (!running()) return exit_;
  if (grace > Clock::duration::zero()) {
    ::kill(-pid_, SIGTERM);
    ::kill(-pid_, SIGCONT);
    wait(Deadline::in(grace));
    if (!running()) return exit_;
  }
  ::kill(-pid_, SIGKILL);
  wait(Deadline::in(Milliseconds(500)));
  if (pid_ > 0 && !running()) return exit_;
  if (pid_ > 0) pid_ = -1;  // given up; PDEATHSIG and SIGKILL stay pending with it
  return exit_;
}

Result<Finished> run(Command command, const std::string& input, Deadline deadline, std::size_t most_bytes) {
  struct Pipe {
    UniqueFd read, write;
  };
  std::array<Pipe, 3> pipes;
  for (auto& pipe : pipes) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      return Error{fmt::format("cannot make a pipe: {}", std::strerror(errno)), command.program, ""};
    pipe.read.reset(ends[0]);
    pipe.write.reset(ends[1]);
  }
  command.descriptors.insert(
      command.descriptors.end(),
      {{0, pipes[0].read.get()}, {1, pipes[1].write.get()}, {2, pipes[2].write.get()}});
  auto child = Child::start(command);
  if (!child) return child.error();
  pipes[0].read.reset();
  pipes[1].write.reset();
  pipes[2].write.reset();
  for (auto* fd : {&pipes[0].write, &pipes[1].read, &pipes[2].read}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);

  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  Finished finished;
  std::string_view rest = input;
  if (rest.empty()) pipes[0].write.reset();
  std::array<char, 65'536> buffer{};
  bool too_much = false;
  while (!too_much && (pipes[1].read || pipes[2].read) && !deadline.passed()) {
    std::array<pollfd, 3> fds{{{pipes[0].write.get(), POLLOUT, 0},
                               {pipes[1].read.get(), POLLIN, 0},
                               {pipes[2].read.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), deadline.poll_ms()) <= 0) continue;
    if (fds[0].revents != 0) {
      const ssize_t n = ::write(pipes[0].write.get(), rest.data(), rest.size());
      if (n > 0) rest.remove_prefix(static_cast<std::size_t>(n));
      if (rest.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) pipes[0].write.reset();
    }
    for (std::size_t i = 1; i < 3; ++i) {
      if (fds[i].revents == 0) continue;
      const ssize_t n = ::read(pipes[i].read.get(), buffer.data(), buffer.size());
      if (n > 0) {
        auto& text = i == 1 ? finished.out : finished.error;
        const std::size_t most = i == 1 ? most_bytes : 4096;
        const auto take = std::min(static_cast<std::size_t>(n), most - text.size());
        text.append(buffer.data(), take);
        too_much = too_much || (i == 1 && take < static_cast<std::size_t>(n));
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        pipes[i].read.reset();
      }
    }
  }
  ::sigaction(SIGPIPE, &before, nullptr);
  if (too_much) {
    child->end(Clock::duration::zero());
    return Error{fmt::format("wrote more than {} bytes", most_bytes), command.program, ""};
  }
  auto ended = child->wait(deadline);
  if (!ended) {
    finished.timed_out = true;
    ended = child->end(Milliseconds(50));
  }
  finished.exit = ended.value_or(Exit{0, SIGKILL});
  return finished;
}

}  // namespace nccl_check
