#pragma once
// A process's side of a communicator: its ranks meet here, and one connection to the root speaks for all of
// them.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "tests/doubles/nccl/collective.hpp"

namespace nccl_check::doubles {

// The slowest of what ranks can do, and the latest of their clocks.
struct Pace {
  double start = 0;
  double inside = 0, outside = 0;
};

enum class Letter : std::uint32_t { data, taken };

class Link : public std::enable_shared_from_this<Link> {
 public:
  enum class State { joining, ready, lost };
  using Ended = std::atomic<bool>;  // the rank was aborted: whoever waits for it gives up

  static std::shared_ptr<Link> of(const ncclUniqueId& id);  // one a process and id
  explicit Link(std::string key) : key_(std::move(key)) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool join(const ncclUniqueId& id, const Member& member);
  bool stuck();  // a rank waits for what cannot come, since a process is gone
  State wait_ready(const Ended& ended);
  const std::vector<Member>& members() const { return members_; }  // once ready
  void leave(int rank, bool orderly);
  void wake();  // after a rank's end was set

  // All ranks' collective of this number; false: ended. Where another rank never comes, it waits for that.
  bool collective(const Collective& what, std::uint64_t number, const Buffers& buffers, Pace& pace,
                  const Ended& ended);

  void post(const Header& header, Bytes payload);
  bool fetch(Letter kind, int from, int to, std::uint64_t number, Header& header, Bytes& payload,
             const Ended& ended);
  void wait_for_end(const Ended& ended);

 private:
  struct Slot {
    std::vector<Buffers> arrived;
    Pace pace;
    Bytes share;
    bool reading = false;  // the ranks' buffers: none may go away now
    bool done = false;
    std::size_t taken = 0;
  };
  using Address = std::tuple<std::uint32_t, int, int, std::uint64_t>;

  // Waits, and notes when the wait is in vain. The caller holds mutex_.
  template <class Done>
  void wait_for(std::unique_lock<std::mutex>& lock, Done done);
  bool connect(const ncclUniqueId& id);
  void read();
  void handle(const Header& header, Bytes payload);
  void send(const Header& header, const void* payload);
  void combine(const Collective& what, std::uint64_t number, Slot& slot);
  bool alone() const { return local_.size() == members_.size(); }
  std::vector<int> local() const { return {local_.begin(), local_.end()}; }

  const std::string key_;
  std::mutex connecting_, writing_, mutex_;
  std::condition_variable changed_;
  int fd_ = -1;
  State state_ = State::joining;
  bool stuck_ = false;
  std::set<int> local_;  // all that joined; those that left stay in it
  std::size_t left_ = 0;
  std::vector<Member> members_;
  std::map<std::uint64_t, std::shared_ptr<Slot>> slots_;
  std::map<Address, std::pair<Header, Bytes>> letters_;
};

}  // namespace nccl_check::doubles
