#pragma once
// A node's end. It looks for the coordinator of its job on the first node until it finds it or its deadline
// passes: nodes start seconds apart, the port may be another job's, somebody else may listen. Nothing blocks;
// drive it by fd(), advance().
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/result.hpp"
#include "job/rendezvous/credentials.hpp"
#include "job/rendezvous/frame.hpp"
#include "job/rendezvous/identity.hpp"

namespace nccl_check::rendezvous {

struct ClientSetup {
  JobIdentity job;
  PortRange ports;
  std::string node;                    // its own name
  std::string root;                    // the first node's name, for messages
  std::vector<std::string> addresses;  // of the first node, numbers; all are tried at once, at most 8
  std::string hello;                   // what it says first: the server's `joined` event carries it
};

class Client {
 public:
  enum class State {
    joining,
    joined,  // its join is on its way; a refusal may still come, and is then the error
    failed,  // for good: error()
  };

  // Errors are those of the setup; that nobody answers shows later.
  static Result<Client> start(ClientSetup setup, std::unique_ptr<Credentials> credentials, Deadline join_by);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  [[nodiscard]] int fd() const;  // readable when advance() has work, timeouts included
  // Does what can be done at once; the messages that came, in order. Look at state() after it, messages
  // first.
  std::vector<Frame> advance();
  // The same, but waits until there are messages, the state changes or the deadline passes.
  std::vector<Frame> wait(Deadline deadline);
  [[nodiscard]] State state() const;
  [[nodiscard]] const Error& error() const;   // why it failed: the whole story, each port that was tried
  [[nodiscard]] std::string address() const;  // "10.0.0.1:61003" of the coordinator, once joined

  Status send(std::uint16_t type, std::string_view payload);  // once joined; taken over whole
  Status flush(Deadline deadline);                            // until all that was sent is with the kernel

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nccl_check::rendezvous
