#include "nodes.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

namespace fs = std::filesystem;

constexpr const char* gone = "(gone)";

// Words are lines; a result is a line that begins with '='.
void say(int fd, std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  text += '\n';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

std::string hear(int fd, Deadline deadline) {
  std::string line;
  for (char c = 0;;) {
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, deadline.poll_ms()) <= 0) return gone;
    const ssize_t n = ::read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return gone;
    if (c == '\n') return line;
    line += c;
  }
}

struct Node {
  pid_t pid = -1;
  UniqueFd fd;
  std::string result;
};

[[noreturn]] void be_node(int fd, int worker, const std::string& file, const Act& act) {
  ::setenv("NCCL_CHECK_SIMULATION", file.c_str(), 1);
  ::setenv("NCCL_CHECK_SIMULATED_HOST", ("n" + std::to_string(worker + 1)).c_str(), 1);
  auto engine = make_nccl_engine({});
  const Tell tell = [fd](const std::string& word) {
    say(fd, "." + word);
    return split(hear(fd, soon()), '\t');
  };
  say(fd, "=" + act(*engine, worker, tell));
  // A worker stays until its gate ends it, so that nobody loses a peer that is done; then it goes without
  // destructors.
  hear(fd, soon());
  ::_exit(0);
}

// One round of words, or of results.
bool serve(std::vector<Node>& nodes, Deadline deadline) {
  std::vector<std::string> words;
  bool more = false;
  for (auto& node : nodes) {
    std::string word = node.result.empty() ? hear(node.fd.get(), deadline) : gone;
    if (node.result.empty() && !word.starts_with('.')) {
      node.result = word.starts_with('=') ? word.substr(1) : gone;
      word = gone;
    }
    more = more || node.result.empty();
    words.push_back(word.starts_with('.') ? word.substr(1) : word);
  }
  for (auto& node : nodes)
    if (node.result.empty()) say(node.fd.get(), join(words, "\t"));
  return more;
}

}  // namespace

std::vector<std::string> run_nodes(const std::string& simulation, int hosts, const Act& act) {
  static std::atomic<int> runs{0};
  const auto file = (fs::temp_directory_path() /
                     ("nccl_check_simulation." + std::to_string(::getpid()) + "." + std::to_string(++runs)))
                        .string();
  std::ofstream(file) << simulation;
  std::vector<Node> nodes;
  for (int worker = 0; worker < hosts; ++worker) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) break;
    const pid_t pid = ::fork();
    if (pid == 0) {
      nodes.clear();
      ::close(ends[0]);
      be_node(ends[1], worker, file, act);
    }
    ::close(ends[1]);
    nodes.push_back({pid, UniqueFd(ends[0]), ""});
  }
  const auto deadline = Deadline::in(Milliseconds(60000));
  while (serve(nodes, deadline)) {
  }
  for (auto& node : nodes) node.fd.reset();
  std::vector<std::string> out;
  for (auto& node : nodes) {
    if (node.result == gone) ::kill(node.pid, SIGKILL);
    ::waitpid(node.pid, nullptr, 0);
    out.push_back(node.result);
  }
  fs::remove(file);
  return out;
}

Settings on_doubles() {
  Settings out;
  const std::string folder = NCCL_CHECK_DOUBLES;
  out.cuda_library = folder + "/libcuda.so.1";
  out.library = folder + "/libnccl.so.2";
  out.nvml_library = folder + "/libnvidia-ml.so.1";
  out.most_bytes = 1U << 20U;
  return out;
}

Deadline soon() {
  return Deadline::in(Milliseconds(20000));
}

std::string text_of(const Failure& failure) {
  return std::string(verdict::name(failure.cls)) + ": " + failure.error.text();
}

}  // namespace nccl_check::engine::nccl
