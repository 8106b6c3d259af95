#include "job/rendezvous/munge_credentials.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <munge.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/deadline.hpp"
#include "job/rendezvous/secret.hpp"

namespace nccl_check::rendezvous {
namespace {

// Between parent and child, one datagram each way: this, then the text.
enum class Work : std::uint32_t { make, open };
struct Request {
  std::uint64_t ticket;
  Work work;
  std::uint32_t unused;
};
struct Reply {
  std::uint64_t ticket;
  Answer::Problem problem;
  uid_t uid;
  gid_t gid;
  std::uint32_t why_bytes;  // of `why`, which comes first; the rest is the text
  std::int64_t made_at;
  std::int64_t opened_at;
};
constexpr std::size_t most_datagram = 16'384;
constexpr std::size_t most_text = most_datagram - sizeof(Reply) - 512;
constexpr std::size_t most_why = 256;

Answer::Problem problem_of(munge_err_t code) {
  switch (code) {
    case EMUNGE_SUCCESS:
      return Answer::Problem::none;
    case EMUNGE_SOCKET:
    case EMUNGE_TIMEOUT:
    case EMUNGE_SNAFU:
    case EMUNGE_NO_MEMORY:
      return Answer::Problem::unavailable;
    case EMUNGE_CRED_REPLAYED:
      return Answer::Problem::replayed;
    case EMUNGE_CRED_EXPIRED:
      return Answer::Problem::expired;
    case EMUNGE_CRED_REWOUND:
      return Answer::Problem::rewound;
    default:
      return Answer::Problem::refused;
  }
}

std::int64_t time_option(munge_ctx_t context, munge_opt_t option) {
  std::time_t time = 0;
  return ::munge_ctx_get(context, option, &time) == EMUNGE_SUCCESS ? time : 0;
}

munge_ctx_t make_context(const MungeSettings& settings) {
  munge_ctx_t context = ::munge_ctx_create();
  if (context == nullptr) return nullptr;
  bool good = true;
  if (!settings.socket.empty())
    good = ::munge_ctx_set(context, MUNGE_OPT_SOCKET, settings.socket.c_str()) == EMUNGE_SUCCESS;
  // A daemon's default may be no cipher at all, and the payload holds a secret.
  good = good && ::munge_ctx_set(context, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128) == EMUNGE_SUCCESS;
  good = good && ::munge_ctx_set(context, MUNGE_OPT_ZIP_TYPE, MUNGE_ZIP_NONE) == EMUNGE_SUCCESS;
  good = good && ::munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, settings.for_uid) == EMUNGE_SUCCESS;
  good = good && ::munge_ctx_set(context, MUNGE_OPT_TTL, static_cast<int>(settings.lifetime.count())) ==
                     EMUNGE_SUCCESS;
  if (good) return context;
  ::munge_ctx_destroy(context);
  return nullptr;
}

std::string why_of(munge_ctx_t context, munge_err_t code) {
  const char* detail = ::munge_ctx_strerror(context);
  return std::string(detail != nullptr ? detail : ::munge_strerror(code)).substr(0, most_why);
}

std::string answer(munge_ctx_t made_by, const MungeSettings& settings, std::string_view datagram) {
  Request request{};
  std::memcpy(&request, datagram.data(), sizeof request);
  const std::string text(datagram.substr(sizeof request));
  Reply reply{};
  reply.ticket = request.ticket;
  std::string why;
  std::string out;
  if (request.work == Work::make) {
    char* credential = nullptr;
    const munge_err_t code = ::munge_encode(&credential, made_by, text.data(), static_cast<int>(text.size()));
    reply.problem = problem_of(code);
    if (code == EMUNGE_SUCCESS) out = credential;
    if (code != EMUNGE_SUCCESS) why = why_of(made_by, code);
    ::free(credential);
  } else {
    // Opening overwrites a context with what the credential was made with, so each gets its own.
    munge_ctx_t context = make_context(settings);
    void* payload = nullptr;
    int bytes = 0;
    const munge_err_t code = ::munge_decode(text.c_str(), context, &payload, &bytes, &reply.uid, &reply.gid);
    reply.problem = problem_of(code);
    if (payload != nullptr && bytes > 0)
      out.assign(static_cast<const char*>(payload), static_cast<std::size_t>(bytes));
    if (code != EMUNGE_SUCCESS) why = why_of(context, code);
    reply.made_at = time_option(context, MUNGE_OPT_ENCODE_TIME);
    reply.opened_at = time_option(context, MUNGE_OPT_DECODE_TIME);
    ::free(payload);
    ::munge_ctx_destroy(context);
  }
  if (out.size() > most_text) {
    reply.problem = Answer::Problem::refused;
    why = fmt::format("{} bytes, at most {} are taken", out.size(), most_text);
    out.clear();
  }
  reply.why_bytes = static_cast<std::uint32_t>(why.size());
  std::string bytes(sizeof reply, '\0');
  std::memcpy(bytes.data(), &reply, sizeof reply);
  return bytes + why + out;
}

void close_all_but(int kept) {
  const auto close_range = [](unsigned first, unsigned last) {
    if (first > last || ::syscall(SYS_close_range, first, last, 0) == 0) return;
    const unsigned end = std::min(last, 65'536U);  // a kernel before 5.9
    for (unsigned fd = first; fd <= end; ++fd) ::close(static_cast<int>(fd));
  };
  close_range(3, static_cast<unsigned>(kept) - 1);
  close_range(static_cast<unsigned>(kept) + 1, ~0U);
}

// The child: one request after the other until its parent closes the socket.
[[noreturn]] void serve(int socket, pid_t parent, const MungeSettings& settings) {
  for (int s = 1; s < 32; ++s) ::signal(s, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  // Nothing of the parent's is held open here: its peers must see it go.
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) ::dup2(null, fd);
  close_all_but(socket);
  munge_ctx_t context = make_context(settings);
  if (context == nullptr) ::_exit(1);
  std::string buffer(most_datagram, '\0');
  for (;;) {
    const ssize_t n = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < static_cast<ssize_t>(sizeof(Request))) ::_exit(0);
    const std::string reply =
        answer(context, settings, std::string_view(buffer).substr(0, static_cast<std::size_t>(n)));
    if (::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) ::_exit(0);
  }
}

}  // namespace

Result<std::unique_ptr<Credentials>> MungeCredentials::start(const MungeSettings& settings) {
  munge_ctx_t context = make_context(settings);
  if (context == nullptr)
    return Error{"libmunge does not take the settings", settings.socket,
                 "give a socket's path and a positive lifetime"};
  char* path = nullptr;
  ::munge_ctx_get(context, MUNGE_OPT_SOCKET, &path);
  const std::string name = fmt::format("munged ({})", path != nullptr ? path : "?");
  ::munge_ctx_destroy(context);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return Error{fmt::format("cannot make a socket pair: {}", std::strerror(errno)), name, ""};
  UniqueFd ours(ends[0]);
  UniqueFd childs(ends[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{fmt::format("cannot fork: {}", std::strerror(errno)), name, ""};
  if (pid == 0) serve(childs.get(), parent, settings);
  return std::unique_ptr<Credentials>(new MungeCredentials(std::move(ours), pid, name));
}

MungeCredentials::MungeCredentials(UniqueFd socket, pid_t child, std::string name)
    : socket_(std::move(socket)), child_(child), name_(std::move(name)) {}

MungeCredentials::~MungeCredentials() {
  ::kill(child_, SIGKILL);
  const auto deadline = Deadline::in(Milliseconds(500));
  while (::waitpid(child_, nullptr, WNOHANG) == 0 && !deadline.passed())
    std::this_thread::sleep_for(Milliseconds(1));
}

void MungeCredentials::make(std::uint64_t ticket, std::string_view payload) {
  const Request request{ticket, Work::make, 0};
  std::string bytes(sizeof request, '\0');
  std::memcpy(bytes.data(), &request, sizeof request);
  ask(bytes.append(payload));
}

void MungeCredentials::open(std::uint64_t ticket, std::string_view credential) {
  const Request request{ticket, Work::open, 0};
  std::string bytes(sizeof request, '\0');
  std::memcpy(bytes.data(), &request, sizeof request);
  ask(bytes.append(credential));
}

void MungeCredentials::ask(std::string request) {
  Request head{};
  std::memcpy(&head, request.data(), sizeof head);
  asked_.push_back(head.ticket);
  waiting_.push_back(std::move(request));
  send_waiting();
}

void MungeCredentials::send_waiting() {
  while (!waiting_.empty()) {
    auto& next = waiting_.front();
    if (::send(socket_.get(), next.data(), next.size(), MSG_NOSIGNAL) < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) ended_ = true;  // answers() says so
      return;
    }
    wipe(next);
    waiting_.pop_front();
  }
}

std::vector<Answer> MungeCredentials::answers() {
  std::vector<Answer> out;
  std::array<char, most_datagram> buffer;  // NOLINT: recv fills what is read of it
  for (;;) {
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < static_cast<ssize_t>(sizeof(Reply))) {
      ended_ = true;
      break;
    }
    Reply reply{};
    std::memcpy(&reply, buffer.data(), sizeof reply);
    Answer one;
    one.ticket = reply.ticket;
    one.problem = reply.problem;
    const auto rest = std::string_view(buffer.data(), static_cast<std::size_t>(n)).substr(sizeof reply);
    one.why = rest.substr(0, reply.why_bytes);
    one.text = rest.substr(one.why.size());
    one.uid = reply.uid;
    one.gid = reply.gid;
    one.made_at = reply.made_at;
    one.opened_at = reply.opened_at;
    out.push_back(std::move(one));
    if (!asked_.empty()) asked_.pop_front();  // answers keep the order of the requests
  }
  if (!out.empty()) ::explicit_bzero(buffer.data(), buffer.size());
  if (ended_) {
    for (const auto ticket : asked_)
      out.push_back({ticket, Answer::Problem::unavailable, "the process that talks to munged has ended", "",
                     0, 0, 0, 0});
    asked_.clear();
    waiting_.clear();
  }
  send_waiting();
  return out;
}

}  // namespace nccl_check::rendezvous
