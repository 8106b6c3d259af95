#pragma once
// The coordinator's end: one listening socket, a connection a node. Runs in one process without threads;
// nothing here blocks longer than the Deadline it is given. What strangers can take is bounded: connections,
// time, bytes, log lines.
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

struct Limits {
  std::size_t strangers =
      256;  // connections that have not joined, beyond one a node; then the oldest silent one goes
  std::size_t same_host = 64;                        // of these, from one address
  Clock::duration silent = Milliseconds(3000);       // from the connection to the whole hello
  Clock::duration handshake = Milliseconds(10'000);  // each further step: munged here, the node's answer
  std::size_t refusals_told = 64;                    // refused events; more are counted only
  std::size_t waiting = 1U << 20U;  // bytes for one node that it does not take; more: it is dropped
};

struct ServerSetup {
  JobIdentity job;
  PortRange ports;
  std::vector<std::string> nodes;  // who may join; the index here is a node's number
  uid_t accepted = 0;              // whose credentials are taken
  Limits limits;
};

struct Event {
  enum class Kind {
    joined,   // `payload`: what the node said first
    message,  // `type`, `payload`
    left,     // a node that had joined is gone for good, `why`
    refused,  // somebody was not let in, `why` with the address; counts for no node
  };
  Kind kind = Kind::refused;
  int node = -1;
  std::uint16_t type = 0;
  std::string payload;
  std::string why;
};

class Server {
 public:
  // Call it in the process that will use it (after a fork). Raises the limit of open files as far as needed.
  static Result<Server> listen(ServerSetup setup, std::unique_ptr<Credentials> credentials);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] int fd() const;  // readable when poll() has work, timeouts included
  // Waits until there is something to tell, or the deadline. A deadline that has passed: does what can be
  // done at once.
  std::vector<Event> poll(Deadline deadline);
  // Taken over whole, sent as the node takes it. An error: this node is not there (any more), or the message
  // is no message.
  Status send(int node, std::uint16_t type, std::string_view payload);
  // Until all that was sent is with the kernel. Events are kept for poll().
  Status flush(Deadline deadline);
  // flush(), then says good-bye and waits until the nodes have closed, so that nobody loses the last message.
  Status finish(Deadline deadline);
  void close(int node);  // it is gone then, without an event

  [[nodiscard]] bool joined(int node) const;
  [[nodiscard]] std::size_t refusals() const;  // all of them, told or not

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nccl_check::rendezvous
