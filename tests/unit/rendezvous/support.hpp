#pragma once
// What the tests of the rendezvous share: credentials without a service, a peer that can misbehave, a munged
// of its own.
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "job/rendezvous/client.hpp"
#include "job/rendezvous/handshake.hpp"
#include "job/rendezvous/server.hpp"

namespace nccl_check::rendezvous::test {

// Stands for munge on all hosts. Credentials are "FAKE:number".
struct World {
  struct Made {
    std::string payload;
    uid_t uid;
    uid_t for_uid;
  };
  std::map<std::string, Made> made;
  std::set<std::string> opened;
};

class FakeCredentials : public Credentials {
 public:
  FakeCredentials(World& world, uid_t uid, uid_t for_uid) : world_(world), uid_(uid), for_uid_(for_uid) {}
  void make(std::uint64_t ticket, std::string_view payload) override;
  void open(std::uint64_t ticket, std::string_view credential) override;
  std::vector<Answer> answers() override { return std::exchange(answers_, {}); }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] std::string name() const override { return "fake munged"; }

  bool frozen = false;                              // never answers
  Answer::Problem problem = Answer::Problem::none;  // of the next answers
  std::time_t made_at = 1'700'000'000;
  std::time_t opened_at = 1'700'000'000;
  int asked = 0;

 private:
  World& world_;
  uid_t uid_;
  uid_t for_uid_;
  std::vector<Answer> answers_;
};

inline std::unique_ptr<FakeCredentials> fake(World& world, uid_t uid = 0, uid_t for_uid = 0) {
  return std::make_unique<FakeCredentials>(world, uid, for_uid);
}

PortRange free_ports();  // eight in a row, all free a moment ago
inline JobIdentity a_job() {
  return {"alps", 8000, no_step, 0};
}

inline Channel channel(const Secret& secret, Direction outgoing) {
  return Channel(secret, outgoing);
}

// A peer that writes what it likes: blocking, two seconds at most.
class Raw {
 public:
  explicit Raw(std::uint16_t port);
  explicit Raw(UniqueFd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] bool send(std::string_view bytes) const;
  std::string receive_all();   // until the other side closes
  std::string receive_some();  // "": closed
  [[nodiscard]] int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  void reset();  // closes by RST

 private:
  UniqueFd fd_;
};

// Listens, and does nothing else.
class Squatter {
 public:
  explicit Squatter(std::uint16_t port);
  [[nodiscard]] bool good() const { return static_cast<bool>(fd_); }
  Raw accept();                      // two seconds at most
  [[nodiscard]] bool asked() const;  // somebody waits to be accepted

 private:
  UniqueFd fd_;
};

// Lets the ends talk until `done`, at most for `most`. Returns the server's events.
struct Talk {
  Server* server = nullptr;
  std::vector<Client*> clients;
  std::vector<Event> events;
  std::vector<std::vector<Frame>> frames;  // of each client
  bool until(const std::function<bool()>& done, Clock::duration most = Milliseconds(5000));
  [[nodiscard]] std::vector<Event> of(Event::Kind kind) const;
};

// The munged of the distribution, with its own key, socket and folder.
class Munged {
 public:
  Munged();
  ~Munged();
  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] std::string socket() const { return (folder_ / "socket").string(); }
  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  void stop();  // ends it

 private:
  std::filesystem::path folder_;
  Child child_;
  bool up_ = false;
};

}  // namespace nccl_check::rendezvous::test
