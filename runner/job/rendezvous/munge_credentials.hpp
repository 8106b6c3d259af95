#pragma once
// Credentials by libmunge. It waits 10 s for a munged that is stopped (five times 2 s, not to be changed from
// outside), so a child of its own talks to munged; the child dies with its parent and with this object.
#include <chrono>
#include <deque>
#include <memory>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "job/rendezvous/credentials.hpp"

namespace nccl_check::rendezvous {

struct MungeSettings {
  uid_t for_uid = 0;   // who alone can open what is made here: root for a gate, the job's user for a step
  std::string socket;  // munged's; empty: libmunge's own (or what Slurm's AuthInfo=socket= names)
  // How long a credential can be opened. Bounds also how far clocks may differ. Long enough for a coordinator
  // that is busy with thousands of nodes, shorter than anyone needs to carry a copy elsewhere.
  std::chrono::seconds lifetime{60};
};

class MungeCredentials : public Credentials {
 public:
  // Forks: call it in the process that will use it.
  static Result<std::unique_ptr<Credentials>> start(const MungeSettings& settings);
  ~MungeCredentials() override;
  MungeCredentials(const MungeCredentials&) = delete;
  MungeCredentials& operator=(const MungeCredentials&) = delete;

  void make(std::uint64_t ticket, std::string_view payload) override;
  void open(std::uint64_t ticket, std::string_view credential) override;
  std::vector<Answer> answers() override;
  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] pid_t child() const { return child_; }

 private:
  MungeCredentials(UniqueFd socket, pid_t child, std::string name);
  void ask(std::string request);
  void send_waiting();

  UniqueFd socket_;
  pid_t child_;
  std::string name_;
  bool ended_ = false;               // the child is gone
  std::deque<std::string> waiting_;  // requests that the child has no room for yet
  std::deque<std::uint64_t> asked_;  // tickets without an answer, in their order
};

}  // namespace nccl_check::rendezvous
