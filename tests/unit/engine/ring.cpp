#include "ring.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "base/fd.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
// libfabric and the libraries under it keep what they allocate at start until the process ends.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfabric\nleak:libinfinipath\nleak:libpsm2\n";
}
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
#endif

namespace nccl_check::engine::fabric {
namespace {

constexpr int longest_ms = 60'000;

void send_text(int fd, const std::string& text) {
  // One byte more, so that an empty text is a message too.
  if (send(fd, text.c_str(), text.size() + 1, MSG_NOSIGNAL) < 0) _exit(3);
}

std::string receive_text(int fd, bool& ended) {
  std::array<char, 8192> buffer{};
  pollfd wait{fd, POLLIN, 0};
  ended = poll(&wait, 1, longest_ms) <= 0;
  const ssize_t n = ended ? 0 : recv(fd, buffer.data(), buffer.size(), 0);
  ended = n <= 0;
  return ended ? "" : std::string(buffer.data(), static_cast<std::size_t>(n) - 1);
}

// The child's life: says its address, hears all, runs the body, says what came of it.
std::string live(const RingOf& ring, int number, int fd, const std::function<std::string(Rank&)>& body) {
  FabricEngine engine([] {}, ring.tamper);
  auto opened = engine.open(ring.settings(number), Deadline::in(std::chrono::seconds(20)));
  if (!opened) {
    send_text(fd, "");
    return "open: " + opened.failure().error.text();
  }
  send_text(fd, opened->address);
  bool ended = false;
  std::vector<std::string> addresses;
  for (int i = 0; i < ring.ranks; ++i) addresses.push_back(receive_text(fd, ended));
  Place place;
  place.rank = number;
  place.ranks = ring.ranks;
  place.next = addresses[static_cast<std::size_t>((number + 1) % ring.ranks)];
  place.previous = addresses[static_cast<std::size_t>((number + ring.ranks - 1) % ring.ranks)];
  Rank rank{engine, place, addresses, [&] {
              send_text(fd, "meet");
              bool alone = false;
              (void)receive_text(fd, alone);
            }};
  return body(rank);
}

}  // namespace

std::vector<std::string> run_ring(const RingOf& ring, const std::function<std::string(Rank&)>& body) {
  std::vector<UniqueFd> ends;
  std::vector<pid_t> children;
  for (int number = 0; number < ring.ranks; ++number) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
    const pid_t child = fork();
    if (child < 0) std::abort();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      ends.clear();
      close(pair[0]);
      send_text(pair[1], "said:" + live(ring, number, pair[1], body));
#if defined(__SANITIZE_ADDRESS__)
      if (__lsan_do_recoverable_leak_check() != 0) _exit(23);
#endif
      _exit(0);
    }
    close(pair[1]);
    ends.emplace_back(pair[0]);
    children.push_back(child);
  }

  bool ended = false;
  std::vector<std::string> addresses;
  for (const auto& end : ends) addresses.push_back(receive_text(end.get(), ended));
  for (const auto& end : ends)
    for (const auto& address : addresses)
      (void)send(end.get(), address.c_str(), address.size() + 1, MSG_NOSIGNAL);

  // Ranks meet as often as they like; a rank that has spoken or died is not waited for.
  std::vector<std::string> said(ends.size(), "ended without a word");
  std::vector<bool> over(ends.size(), false);
  for (bool any = true; any;) {
    any = false;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (over[i]) continue;
      const auto text = receive_text(ends[i].get(), ended);
      if (text == "meet") {
        any = true;
        continue;
      }
      over[i] = true;
      if (!ended) said[i] = text.substr(5);
    }
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (!over[i]) (void)send(ends[i].get(), "go", 3, MSG_NOSIGNAL);
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    if (said[i] == "ended without a word") kill(children[i], SIGKILL);
    waitpid(children[i], &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 23) said[i] += " and leaked memory";
  }
  return said;
}

}  // namespace nccl_check::engine::fabric
