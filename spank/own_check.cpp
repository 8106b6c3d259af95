#include "spank/own_check.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

#include "base/deadline.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "spank/record.hpp"

namespace nccl_check::spank {
namespace {

// Slurm's variables say what was allocated; everything else of the user's could change what is measured.
std::vector<std::string> environment_of(const CheckRequest& request) {
  std::vector<std::string> out{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "LC_ALL=C"};
  for (const auto& variable : request.environment)
    if (variable.starts_with("SLURM_") || variable.starts_with("SLURMD_") ||
        variable.starts_with("CUDA_VISIBLE_DEVICES="))
      out.push_back(variable);
  return out;
}

Command command_of(const CheckRequest& request) {
  Command command;
  command.program = request.program;
  command.arguments = {"step",
                       "--config",
                       request.config,
                       "--spec",
                       option::canonical(request.spec),
                       "--job",
                       std::to_string(request.job),
                       "--step",
                       std::to_string(request.step),
                       "--node",
                       request.node,
                       "--nodelist",
                       request.nodes,
                       "--node-rank",
                       std::to_string(request.node_rank)};
  command.environment = environment_of(request);
  // The task is bound to its own share of the step's cores; the check is for all of them. The cgroup still
  // bounds it.
  command.prepare = [] {
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    ::sched_setaffinity(0, sizeof all, &all);
    return 0;
  };
  return command;
}

// Every identity of the task is the job's user's and group's: what it starts cannot have more.
Status check_unprivileged(const CheckRequest& request) {
  uid_t uid[3] = {};
  gid_t gid[3] = {};
  const auto only = [](const auto(&ids)[3], std::uint32_t id) {
    return ids[0] == id && ids[1] == id && ids[2] == id;
  };
  if (::getresuid(&uid[0], &uid[1], &uid[2]) != 0 || ::getresgid(&gid[0], &gid[1], &gid[2]) != 0 ||
      !only(uid, request.user) || !only(gid, request.group))
    return Error{"the task does not run as the job's user and group alone", "", ""};
  return success();
}

Checked untested(const CheckRequest& request, const std::string& why, const std::string& output = "") {
  Checked checked;
  checked.lines.push_back("nccl-check: untested " + request.node + ": " + why);
  for (const auto& line : split(output, '\n'))
    if (!trim(line).empty()) checked.lines.push_back("nccl-check:   " + printable(line, 400));
  return checked;
}

std::chrono::milliseconds time_for(const option::Spec& spec) {
  const std::chrono::milliseconds most = longest_check;
  return spec.time ? std::min(*spec.time + std::chrono::milliseconds(grace), most) : most;
}

}  // namespace

Checked run_check(const CheckRequest& request) {
  if (auto alone = check_unprivileged(request); !alone) return untested(request, alone.error().text());
  const auto time = time_for(request.spec);
  auto ran = run(command_of(request), "", Deadline::in(time), most_record_bytes);
  if (!ran) return untested(request, ran.error().text());
  if (ran->timed_out)
    return untested(request, "the check gave no verdict within " + format_seconds(time), ran->error);
  if (ran->exit.signal != 0) return untested(request, "the check was " + ran->exit.text(), ran->error);
  const auto record = parse_record(ran->out, {request.job, request.step, request.user});
  if (!record) {
    const auto end = ran->exit.clean() ? std::string() : " after " + ran->exit.text();
    return untested(request,
                    "what " + request.program + " printed" + end + " is no verdict: " + record.error().text(),
                    ran->error);
  }
  const bool fails = record->job_fails && request.spec.consequence != option::Consequence::warn;
  return {{fails, record->verdict, record->busbw}, record->lines};
}

struct SharedOutcome::Page {
  std::atomic<bool> published = false;
  Outcome outcome;
};
static_assert(std::atomic<bool>::is_always_lock_free, "a lock would be of one process alone");

Result<std::unique_ptr<SharedOutcome>> SharedOutcome::make() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Error{std::string("cannot make a pipe: ") + std::strerror(errno), "", ""};
  UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error{std::string("cannot map a page: ") + std::strerror(errno), "", ""};
  return std::unique_ptr<SharedOutcome>(
      new SharedOutcome(new (memory) Page, std::move(read), std::move(write)));
}

SharedOutcome::~SharedOutcome() {
  ::munmap(page_, sizeof(Page));
}

void SharedOutcome::publish(const Outcome& outcome) {
  page_->outcome = outcome;
  page_->published.store(true, std::memory_order_release);
  // Nobody takes it out, so everyone who waits sees it.
  [[maybe_unused]] const ssize_t n = ::write(write_.get(), "!", 1);
}

std::optional<Outcome> SharedOutcome::wait(std::chrono::milliseconds most) {
  write_.reset();
  const auto deadline = Deadline::in(most);
  pollfd end{read_.get(), POLLIN, 0};
  while (!page_->published.load(std::memory_order_acquire) && !deadline.passed())
    if (::poll(&end, 1, deadline.poll_ms()) > 0) break;
  if (!page_->published.load(std::memory_order_acquire)) return std::nullopt;
  return page_->outcome;
}

void SharedOutcome::forked() {
  write_.reset();
}

void tell_user(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  std::string_view rest = text;
  const auto deadline = Deadline::in(std::chrono::seconds(1));
  while (!rest.empty() && !deadline.passed()) {
    pollfd out{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&out, 1, deadline.poll_ms()) <= 0) continue;
    // Not more than a pipe takes at once, so that the write after a poll does not block.
    const ssize_t n = ::write(STDERR_FILENO, rest.data(), std::min<std::size_t>(rest.size(), 4096));
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace nccl_check::spank
