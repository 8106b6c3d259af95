// The rendezvous of a large job on this machine: the coordinator in one process, all nodes in another, over
// loopback, each node the real client with its own connection and a credential of a real munged of this
// program's own.
//
// A run: every node joins; each gets a row of its own (scatter), answers (gather), and gets the verdict. Two
// figures:
//   all         from the first connection to the last verdict, everything inside. The nodes' credentials are
//   made one after
//               the other by one process; on a real cluster each node makes its own, at the same time.
//   made before the same from the moment when all nodes are connected and have their credentials, as if made
//   in parallel.
#include <fcntl.h>
#include <fmt/format.h>
#include <munge.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "base/text.hpp"
#include "base/units.hpp"
#include "job/rendezvous/munge_credentials.hpp"
#include "support.hpp"

namespace nccl_check::rendezvous {
namespace {

constexpr std::uint16_t row_type = 1;
constexpr std::uint16_t samples_type = 2;
constexpr std::uint16_t verdict_type = 3;

struct Options {
  std::vector<int> nodes{1024, 4096};
  int repeats = 5;
  std::size_t payload = 1024;  // bytes of each message: fingerprint, row, samples, verdict
  bool check = false;          // fail where a median is above its limit
};

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "rendezvous_bench: {}\n", why);
  std::exit(1);
}

class NodesCredentials;

// libmunge in this very process, for all nodes at once. While `held`, what was made is kept back.
struct SharedMunge {
  explicit SharedMunge(const std::string& socket) : context(::munge_ctx_create()) {
    ::munge_ctx_set(context, MUNGE_OPT_SOCKET, socket.c_str());
    ::munge_ctx_set(context, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128);
    ::munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, ::geteuid());
    ::munge_ctx_set(context, MUNGE_OPT_TTL, 60);
  }
  SharedMunge(const SharedMunge&) = delete;
  SharedMunge& operator=(const SharedMunge&) = delete;
  ~SharedMunge() { ::munge_ctx_destroy(context); }
  munge_ctx_t context;
  bool held = false;
  int made = 0;
  std::size_t credential_bytes = 0;
  std::vector<NodesCredentials*> users;
};

class NodesCredentials : public Credentials {
 public:
  explicit NodesCredentials(SharedMunge& munge) : munge_(munge) {
    if (munge.held) wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    munge.users.push_back(this);
  }
  void wake() const {
    const std::uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) != sizeof one) die("eventfd");
  }
  void make(std::uint64_t ticket, std::string_view payload) override {
    char* credential = nullptr;
    if (::munge_encode(&credential, munge_.context, payload.data(), static_cast<int>(payload.size())) !=
        EMUNGE_SUCCESS)
      die(fmt::format("munge: {}", ::munge_ctx_strerror(munge_.context)));
    Answer answer;
    answer.ticket = ticket;
    answer.text = credential;
    ::free(credential);
    munge_.credential_bytes = answer.text.size();
    ++munge_.made;
    answers_.push_back(std::move(answer));
  }
  void open(std::uint64_t, std::string_view) override { die("a node opens no credential"); }
  std::vector<Answer> answers() override {
    return munge_.held ? std::vector<Answer>{} : std::exchange(answers_, {});
  }
  [[nodiscard]] int fd() const override { return wake_.get(); }
  [[nodiscard]] std::string name() const override { return "munged"; }

 private:
  SharedMunge& munge_;
  UniqueFd wake_;  // only where something may be held
  std::vector<Answer> answers_;
};

long status_kb(const char* key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line))
    if (line.rfind(key, 0) == 0) return std::strtol(line.c_str() + std::strlen(key), nullptr, 10);
  return 0;
}

std::vector<std::string> names(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(fmt::format("node{:05}", i));
  return out;
}

// A node of this program has up to four: its socket, an epoll, a timer, an eventfd.
void raise_files(int nodes) {
  const auto wanted = static_cast<rlim_t>(nodes) * 4 + 256;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  const rlimit raised{wanted, std::max(wanted, limit.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0)
    die(fmt::format("{} nodes need {} open files here", nodes, wanted));
}

struct RootFigures {
  bool good;
  long grown_kb;  // of the peak of its resident memory
  long messages;
  long payload_bytes;
  double cpu;
};

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

RootFigures coordinate(const Options& options, int count, const std::string& socket, PortRange ports,
                       int ready) {
  RootFigures figures{};
  auto credentials = MungeCredentials::start({::geteuid(), socket, std::chrono::seconds(60)});
  if (!credentials) die(credentials.error().text());
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
  const long before = status_kb("VmHWM:");
  Limits limits;
  limits.same_host = static_cast<std::size_t>(count) + 64;  // all nodes have one address here
  // Nodes that hold their credential back are silent; and all of them in one process can be slow on a busy
  // machine.
  limits.silent = limits.handshake = std::chrono::seconds(60);
  auto made =
      Server::listen({test::a_job(), ports, names(count), ::geteuid(), limits}, std::move(*credentials));
  if (!made) die(made.error().text());
  Server server = std::move(*made);
  if (::write(ready, "r", 1) != 1) die("the parent is gone");
  const auto deadline = Deadline::in(std::chrono::seconds(60));
  const std::string row(options.payload, 'r');
  const std::string verdict(options.payload, 'v');
  int joined = 0;
  int answered = 0;
  const auto fail = [&](const std::string& why) {
    fmt::print(stderr, "root: {} ({} joined, {} answered)\n", why, joined, answered);
    return figures;
  };
  while (answered < count) {
    if (deadline.passed()) return fail("took more than 60 s");
    for (const auto& event : server.poll(deadline)) {
      if (event.kind == Event::Kind::refused || event.kind == Event::Kind::left) return fail(event.why);
      ++figures.messages;
      figures.payload_bytes += static_cast<long>(event.payload.size());
      if (event.kind == Event::Kind::joined) ++joined;
      if (event.kind == Event::Kind::message) ++answered;
      if (event.kind != Event::Kind::joined || joined < count) continue;
      for (int node = 0; node < count; ++node)
        if (auto sent = server.send(node, row_type, row); !sent) return fail(sent.error().text());
    }
  }
  for (int node = 0; node < count; ++node)
    if (auto sent = server.send(node, verdict_type, verdict); !sent) return fail(sent.error().text());
  if (auto finished = server.finish(deadline); !finished) return fail(finished.error().text());
  figures.messages += 2L * count;
  figures.payload_bytes += 2L * count * static_cast<long>(options.payload);
  figures.grown_kb = status_kb("VmHWM:") - before;
  figures.cpu = cpu_seconds(RUSAGE_SELF);
  figures.good = true;
  return figures;
}

struct NodesFigures {
  bool good;
  double seconds;
  std::size_t credential_bytes;
};

NodesFigures take_part(const Options& options, int count, const std::string& socket, PortRange ports,
                       bool made_before) {
  NodesFigures figures{};
  raise_files(count);
  SharedMunge munge(socket);
  munge.held = made_before;
  const std::string hello(options.payload, 'h');
  const std::string samples(options.payload, 's');
  const auto all = names(count);
  const auto deadline = Deadline::in(std::chrono::seconds(60));
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  std::vector<Client> clients;
  clients.reserve(all.size());
  int done = 0;
  const auto advance = [&](std::size_t i) {
    for (const auto& frame : clients[i].advance()) {
      if (frame.type == row_type && !clients[i].send(samples_type, samples)) die(clients[i].error().text());
      if (frame.type == verdict_type) {
        ++done;
        ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, clients[i].fd(), nullptr);
        return;
      }
    }
    if (clients[i].state() == Client::State::failed) die(clients[i].error().text());
  };
  const auto turn = [&] {
    std::array<epoll_event, 256> ready{};
    const int n = ::epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()),
                               std::min(100, deadline.poll_ms()));
    for (int i = 0; i < n; ++i) advance(ready[static_cast<std::size_t>(i)].data.u64);
    if (deadline.passed()) die("the nodes took more than 60 s");
  };
  auto start = Clock::now();
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto client = Client::start({test::a_job(), ports, all[i], all[0], {"127.0.0.1"}, hello},
                                std::make_unique<NodesCredentials>(munge), deadline);
    if (!client) die(client.error().text());
    clients.push_back(std::move(*client));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, clients.back().fd(), &event) != 0) die("epoll_ctl");
  }
  if (made_before) {
    while (munge.made < count) turn();
    std::this_thread::sleep_for(Milliseconds(100));  // the coordinator has taken the connections, too
    start = Clock::now();
    munge.held = false;
    for (const auto* user : munge.users) user->wake();
  }
  while (done < count) turn();
  figures.seconds = Seconds(Clock::now() - start).count();
  figures.credential_bytes = munge.credential_bytes;
  figures.good = true;
  return figures;
}

template <class T>
std::pair<pid_t, UniqueFd> fork_off(const std::function<T()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) die("pipe");
  const pid_t pid = ::fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    const T figures = work();
    _exit(::write(ends[1], &figures, sizeof figures) == sizeof figures ? 0 : 1);
  }
  ::close(ends[1]);
  return {pid, UniqueFd(ends[0])};
}

template <class T>
std::optional<T> collect(std::pair<pid_t, UniqueFd>& child) {
  T figures{};
  const bool whole = ::read(child.second.get(), &figures, sizeof figures) == sizeof figures;
  ::waitpid(child.first, nullptr, 0);
  if (!whole || !figures.good) return std::nullopt;
  return figures;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Of munged, which is no child that has ended: user and system ticks in /proc/PID/stat, behind the name in
// brackets.
double cpu_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto fields = split(std::string_view(text).substr(std::min(text.size(), text.rfind(')') + 1)), ' ');
  if (fields.size() < 14) return 0;
  const auto ticks =
      std::strtol(fields[12].c_str(), nullptr, 10) + std::strtol(fields[13].c_str(), nullptr, 10);
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

struct Run {
  RootFigures root;
  NodesFigures nodes;
  double cpu;  // of all processes together
};

std::optional<Run> run_once(const Options& options, int count, const test::Munged& munged, bool made_before) {
  const std::string socket = munged.socket();
  const double before = cpu_seconds(RUSAGE_CHILDREN) + cpu_of(munged.pid());
  const auto ports = test::free_ports();
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) die("pipe");
  auto root = fork_off<RootFigures>([&] { return coordinate(options, count, socket, ports, ready[1]); });
  ::close(ready[1]);
  char byte = 0;
  const bool listening = ::read(ready[0], &byte, 1) == 1;
  ::close(ready[0]);
  if (!listening) {
    collect<RootFigures>(root);
    return std::nullopt;
  }
  auto nodes = fork_off<NodesFigures>([&] { return take_part(options, count, socket, ports, made_before); });
  auto of_nodes = collect<NodesFigures>(nodes);
  if (!of_nodes) ::kill(root.first, SIGKILL);  // it would wait for them
  auto of_root = collect<RootFigures>(root);
  if (!of_nodes || !of_root) return std::nullopt;
  return Run{*of_root, *of_nodes, cpu_seconds(RUSAGE_CHILDREN) + cpu_of(munged.pid()) - before};
}

int main_of(const Options& options) {
  test::Munged munged;
  if (!munged.up()) die("no munged");
  bool good = true;
  for (const int count : options.nodes) {
    for (const bool made_before : {false, true}) {
      std::vector<double> seconds;
      std::vector<double> memory;
      std::vector<double> cpu;
      std::vector<double> all_cpu;
      Run last{};
      for (int i = 0; i < options.repeats; ++i) {
        const auto run = run_once(options, count, munged, made_before);
        if (!run) return 1;  // it has said why; munged's folder goes with its object
        last = *run;
        seconds.push_back(last.nodes.seconds);
        memory.push_back(static_cast<double>(last.root.grown_kb) / 1024);
        cpu.push_back(last.root.cpu);
        all_cpu.push_back(last.cpu);
      }
      // Beside the payloads: the headers of six messages, the HMAC of five, and the credential with its
      // greeting.
      const long bytes =
          last.root.payload_bytes +
          static_cast<long>(count) * static_cast<long>(6 * header_bytes + 5 * mac_bytes +
                                                       hello_text("").size() + last.nodes.credential_bytes);
      const double time = median(seconds);
      fmt::print(
          "{:5} nodes, credentials {:<11}: {:.3f} s (median of {}, {:.3f} to {:.3f}); at the root {} "
          "messages, "
          "{:.1f} MB, +{:.1f} MiB resident at the peak, {:.2f} s of CPU; all processes {:.2f} s of CPU\n",
          count, made_before ? "made before" : "inside", time, options.repeats,
          *std::min_element(seconds.begin(), seconds.end()),
          *std::max_element(seconds.begin(), seconds.end()), last.root.messages + 2L * count,
          static_cast<double>(bytes) / 1e6, median(memory), median(cpu), median(all_cpu));
      std::fflush(stdout);
      const double limit = count <= 1024 ? 1.0 : count <= 4096 ? 4.0 : 0;
      if (options.check && limit > 0 && time > limit) {
        fmt::print("      above the limit of {} s\n", limit);
        good = false;
      }
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace nccl_check::rendezvous

int main(int argc, char** argv) {
  using namespace nccl_check;
  rendezvous::Options options;
  std::vector<int> nodes;
  const auto number = [](const std::string& text, double least, double most) {
    const auto value = parse_number(text);
    if (!value || *value < least || *value > most)
      rendezvous::die(fmt::format("'{}' is not a number from {} to {}", text, least, most));
    return static_cast<int>(*value);
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--check") {
      options.check = true;
    } else if (word == "--repeats") {
      options.repeats = number(next, 1, 1000);
      ++i;
    } else if (word == "--payload") {
      options.payload = static_cast<std::size_t>(number(next, 0, 65'536));
      ++i;
    } else {
      nodes.push_back(number(word, 1, 16'384));
    }
  }
  if (!nodes.empty()) options.nodes = nodes;
  return rendezvous::main_of(options);
}
