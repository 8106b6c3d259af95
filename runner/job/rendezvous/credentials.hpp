#pragma once
// Who somebody is, by a third party that both sides trust (MUNGE). Answers come later, so that a service that
// is frozen holds up nobody but itself.
#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace nccl_check::rendezvous {

struct Answer {
  enum class Problem {
    none,
    unavailable,  // the service could not be asked
    replayed,     // these three: everything below is filled in all the same
    expired,
    rewound,  // made in the future
    refused,  // forged, damaged, for somebody else, ...
  };
  std::uint64_t ticket = 0;  // of make() or open()
  Problem problem = Problem::none;
  std::string why;   // of a problem, in the service's words
  std::string text;  // make(): the credential; open(): the payload
  // open() only: whose it is, and when it was made and opened, by the clocks of its maker and of this node
  uid_t uid = 0;
  gid_t gid = 0;
  std::time_t made_at = 0;
  std::time_t opened_at = 0;
};

class Credentials {
 public:
  virtual ~Credentials() = default;
  // Never block. Each leads to one answer, or to none while the service doesn't answer: whoever asks keeps
  // the time.
  virtual void make(std::uint64_t ticket, std::string_view payload) = 0;
  virtual void open(std::uint64_t ticket, std::string_view credential) = 0;
  virtual std::vector<Answer> answers() = 0;
  [[nodiscard]] virtual int fd() const = 0;  // readable when there are answers; -1: they are there at once
  [[nodiscard]] virtual std::string name() const = 0;  // "munged (/run/munge/munge.socket.2)"
};

}  // namespace nccl_check::rendezvous
