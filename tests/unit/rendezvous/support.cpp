#include "support.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <random>
#include <thread>

#include "job/rendezvous/socket.hpp"

namespace nccl_check::rendezvous::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

void FakeCredentials::make(std::uint64_t ticket, std::string_view payload) {
  ++asked;
  if (frozen) return;
  Answer answer;
  answer.ticket = ticket;
  answer.problem = problem;
  if (problem != Answer::Problem::none) {
    answer.why = "fake trouble";
  } else {
    answer.text = fmt::format("FAKE:{}", world_.made.size());
    world_.made[answer.text] = {std::string(payload), uid_, for_uid_};
  }
  answers_.push_back(answer);
}

void FakeCredentials::open(std::uint64_t ticket, std::string_view credential) {
  ++asked;
  if (frozen) return;
  Answer answer;
  answer.ticket = ticket;
  const auto at = world_.made.find(std::string(credential));
  answer.made_at = made_at;
  answer.opened_at = opened_at;
  if (problem == Answer::Problem::unavailable || problem == Answer::Problem::refused) {
    answer.problem = problem;
    answer.why = "fake trouble";
  } else if (at == world_.made.end()) {
    answer.problem = Answer::Problem::refused;
    answer.why = "Invalid credential";
  } else if (at->second.for_uid != uid_) {
    answer.problem = Answer::Problem::refused;
    answer.why = "Unauthorized credential";
  } else {
    answer.problem =
        world_.opened.insert(std::string(credential)).second ? problem : Answer::Problem::replayed;
    answer.text = at->second.payload;
    answer.uid = at->second.uid;
  }
  answers_.push_back(answer);
}

PortRange free_ports() {
  static std::minstd_rand random(static_cast<unsigned>(::getpid()));
  for (;;) {
    const auto first =
        static_cast<std::uint16_t>(20'000 + random() % 12'000);  // below the kernel's own choices
    bool all = true;
    for (std::uint16_t i = 0; i < most_ports && all; ++i) {
      UniqueFd fd;
      all = listen_on(static_cast<std::uint16_t>(first + i), fd) == 0;
    }
    if (all) return {first, static_cast<std::uint16_t>(first + most_ports - 1)};
  }
}

Raw::Raw(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto address = loopback(port);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd_.reset();
}

bool Raw::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    pollfd one{fd_.get(), POLLOUT, 0};
    if (::poll(&one, 1, 2000) <= 0) return false;
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string Raw::receive_some() {
  std::array<char, 65'536> buffer{};
  pollfd one{fd_.get(), POLLIN, 0};
  if (::poll(&one, 1, 2000) <= 0) return {};
  const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  return n <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(n));
}

std::string Raw::receive_all() {
  std::string all;
  for (;;) {
    const std::string some = receive_some();
    if (some.empty()) return all;
    all += some;
  }
}

void Raw::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd_.reset();
}

Squatter::Squatter(std::uint16_t port) {
  listen_on(port, fd_);
}

bool Squatter::asked() const {
  pollfd one{fd_.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

Raw Squatter::accept() {
  pollfd one{fd_.get(), POLLIN, 0};
  ::poll(&one, 1, 2000);
  return Raw(UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

bool Talk::until(const std::function<bool()>& done, Clock::duration most) {
  frames.resize(clients.size());
  const auto deadline = Deadline::in(most);
  while (!done()) {
    if (deadline.passed()) return false;
    if (server != nullptr)
      for (auto& event : server->poll(Deadline::in(Milliseconds(0)))) events.push_back(std::move(event));
    for (std::size_t i = 0; i < clients.size(); ++i)
      for (auto& frame : clients[i]->advance()) frames[i].push_back(std::move(frame));
    if (done()) return true;
    std::vector<pollfd> fds;
    if (server != nullptr) fds.push_back({server->fd(), POLLIN, 0});
    for (const auto* client : clients) fds.push_back({client->fd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), std::min(deadline.poll_ms(), 100));
  }
  return true;
}

std::vector<Event> Talk::of(Event::Kind kind) const {
  std::vector<Event> out;
  for (const auto& event : events)
    if (event.kind == kind) out.push_back(event);
  return out;
}

Munged::Munged() {
  std::string folder = "/tmp/nccl-check-munged.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return;
  folder_ = folder;
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));  // others may come to the socket
  std::ofstream(folder_ / "key") << Secret::random()->hex();
  std::filesystem::permissions(folder_ / "key", std::filesystem::perms(0600));
  Command command;
  command.program = "/usr/sbin/munged";
  command.arguments = {"--foreground", "--force"};
  for (const char* file :
       {"key-file=key", "socket=socket", "pid-file=pid", "log-file=log", "seed-file=seed"}) {
    const std::string option(file);
    const auto at = option.find('=') + 1;
    command.arguments.push_back("--" + option.substr(0, at) + (folder_ / option.substr(at)).string());
  }
  command.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  auto child = Child::start(command);
  if (!child) return;
  child_ = std::move(*child);
  for (const auto deadline = Deadline::in(std::chrono::seconds(10));
       !deadline.passed() && child_.running();) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket().copy(address.sun_path, sizeof address.sun_path - 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    up_ = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (up_) return;
    std::this_thread::sleep_for(Milliseconds(10));
  }
}

void Munged::stop() {
  child_.end(Milliseconds(1000));
}

Munged::~Munged() {
  stop();
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

}  // namespace nccl_check::rendezvous::test
