#pragma once
// Moves one schedule's messages between this rank and its two neighbours, over all rails at once, with
// receives posted ahead. All of the engine's waiting for peers is here: it blocks, gives signs of life, and
// ends at the deadline.
#include <cstdint>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "engine/engine.hpp"
#include "engine/fabric/memory.hpp"
#include "engine/fabric/rail.hpp"
#include "engine/fabric/schedule.hpp"
#include "engine/fabric/waiter.hpp"

namespace nccl_check::engine::fabric {

struct Peer {
  int rank = -1;
  std::string role;                        // "next", "previous", "partner"
  std::vector<fi_addr_t> rails;            // on the rails that both have, in the same order on both sides
  [[nodiscard]] std::string text() const;  // "rank 3 (next)"
};

// This rank and whom it sends to and receives from. With two ranks, and in pairs, that is the same one.
struct Neighbours {
  int self = 0;
  Peer next;
  Peer previous;
};

// Names one exchange: its messages' tags follow from it, so that what an older or aborted one left behind is
// never taken for this one's.
struct Name {
  std::uint64_t seed = 0;  // the task's
  std::uint64_t iteration = 0;
  std::string what;  // for texts: "all_reduce"
};

class Exchange {
 public:
  // The rails stay where they are as long as this lives, and are closed before it goes: it owns what they
  // write to.
  Exchange(std::vector<Rail>& rails, const Heartbeat& heartbeat);

  // Connects: an empty message each way to both neighbours on every common rail.
  Measured<Unit> greet(const Neighbours& neighbours, Deadline deadline);
  // Posts the first receives, then tells both neighbours and waits until both are as far. Not timed.
  Measured<Unit> begin(const Neighbours& neighbours, const Name& name, const Schedule& schedule,
                       const Memory& memory, Deadline deadline);
  // Moves everything: returns when all has been received and all that was sent may be overwritten.
  Measured<Unit> finish(Deadline deadline);

  // Messages under way each way, at most.
  [[nodiscard]] std::size_t window() const { return depth_ * rails_.size(); }

  // A sign of life, and progress for providers that make none by themselves; for pauses in long work of this
  // rank.
  void breathe();

 private:
  enum class Kind : std::uint64_t { data, to_next, to_previous };
  // Messages that a rank sends or receives in order, at most window() at once.
  struct Line {
    std::vector<Posted> window;
    std::uint64_t posted = 0;
    std::uint64_t done = 0;  // in order
    std::size_t rails = 1;
    std::uint64_t hash = 0;
    void start(std::size_t rails, std::size_t depth, std::uint64_t hash);
    [[nodiscard]] bool full() const { return posted - done >= window.size(); }
    [[nodiscard]] bool next_is_done() { return done < posted && !at(done).pending; }
    Posted& at(std::uint64_t message) { return window[message % window.size()]; }
  };

  // An empty message that says "I am as far".
  struct Token {
    const Peer* peer;  // one of neighbours_
    bool receive;
    std::size_t rail;
    std::uint64_t tag;
    bool posted = false;
    Posted post{};
  };

  Measured<Unit> tell_both(std::uint64_t seed, std::uint64_t iteration, std::size_t most_rails_each,
                           Deadline deadline);
  Measured<Unit> post_tokens();
  Measured<Unit> post_receives();
  Measured<Unit> post_sends();
  Measured<Unit> complete();  // whatever has completed; sets moved_
  Measured<Unit> wait(Deadline deadline);
  Measured<Unit> settle();  // what was read into completions_
  void advance();           // counts and processes, in order, what has completed
  void process(std::uint64_t message);
  void beat();

  std::vector<Rail>& rails_;
  const Heartbeat& heartbeat_;
  std::size_t depth_ = 1;
  Clock::time_point last_beat_{};

  // The exchange under way.
  Neighbours neighbours_;
  std::string what_;
  const Schedule* schedule_ = nullptr;  // null outside of begin() ... finish()
  const Memory* memory_ = nullptr;
  Line in_;
  Line out_;
  std::vector<Token> tokens_;
  std::size_t tokens_left_ = 0;

  // Of the last round of posting and completing.
  bool moved_ = false;      // something completed
  bool try_again_ = false;  // libfabric could take no more: poll, and try soon
  Waiter waiter_;
  std::vector<Completion> completions_;
};

}  // namespace nccl_check::engine::fabric
