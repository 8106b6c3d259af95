#pragma once
// The first node's part in a job's check: who takes part, what is measured when, what it means, who acts. A
// state machine without I/O and without a clock of its own: the caller brings what arrived and what time it
// is, and carries away what is to be sent. job/session/coordinator_process.* is that caller for several
// nodes, commands/check.* for a single one.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "job/localization/localization.hpp"
#include "job/session/messages.hpp"
#include "verdict/judge.hpp"

namespace nccl_check::job {

struct CoordinatorSettings {
  std::vector<std::string> nodes;  // the job's, in its order; the first runs the coordinator
  bool node_scope = true;
  bool job_scope = true;
  verdict::Operation collective = verdict::Operation::all_reduce;
  std::uint64_t size = 0;  // bytes of the collective; 0: so that one operation takes about 80 ms
  std::uint64_t most_bytes = 64U << 20U;
  double wanted_busbw = 0;          // GB/s that the user asked for; 0: nothing
  std::int64_t budget_ms = 10'000;  // the verdict stands by then
  std::int64_t join_ms = 5'000;     // peers are waited for so long
};

struct Outgoing {
  std::size_t node;
  MessageType type;
  std::string payload;
};

class Coordinator {
 public:
  Coordinator(CoordinatorSettings settings, Clock::time_point now);

  void message(std::size_t node, MessageType type, std::string_view payload, Clock::time_point now);
  void left(std::size_t node, const std::string& why, Clock::time_point now);
  void tick(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_tick() const;  // call tick() by then
  std::vector<Outgoing> take_outgoing();
  [[nodiscard]] bool finished() const { return phase_ == Phase::finished; }

  // Asked for once, and only when something is slow: a pass costs no RPC. Leaf switch of each node; nodes
  // without one are left out.
  [[nodiscard]] bool wants_topology() const { return phase_ == Phase::topology; }
  void set_topology(const std::map<std::string, std::string>& leaf_of, Clock::time_point now);

 private:
  enum class Phase {
    joining,
    opening,
    rechecking,
    connecting,
    calibrating,
    measuring,
    topology,
    restarting,
    pairing,
    acting,
    failing,
    finished
  };
  struct Member {
    std::string node;
    bool here = false;  // joined and not left
    std::string gone;   // why it is not here
    std::optional<Join> join;
    std::optional<Ready> ready;
    bool part = false;                    // its worker takes part
    int held = 1;                         // ranks that its worker holds
    int first_rank = 0;                   // the first of them, among all
    double inside = 0;                    // GB/s that its ranks can exchange among themselves; 0: unknown
    std::vector<engine::Figure> figures;  // of its node scope, the last ones
    std::optional<std::set<std::string>> suspect;  // those of them that were slow once
    std::string slow_device;     // the one of its ranks' that was much slower than the others, in a pair
    std::string slow_rail;       // the same, with figures
    std::uint32_t expected = 0;  // id of the command whose answer is awaited
  };
  struct Pair {
    localization::Pair nodes;
    std::vector<double> values;  // busbw of the slower rank, per iteration
    double limit = 0;
    double cpu = 1;  // the least share of the time that both had a CPU when they could use one
    bool corrupt = false;
    bool over = false;
  };

  // Phases, each ended by the next one's beginning.
  void begin_opening(Clock::time_point now);
  void end_opening(Clock::time_point now);
  void begin_connecting(Clock::time_point now);
  void begin_calibrating(Clock::time_point now);
  void begin_measuring(Clock::time_point now);
  void end_measuring(Clock::time_point now);
  void begin_localizing(verdict::Class cls, Clock::time_point now);
  void next_round(Clock::time_point now);
  void begin_restarting(const std::set<std::size_t>& nodes, Clock::time_point now);
  void begin_pairing(Clock::time_point now);
  void end_pairing(Clock::time_point now);
  void conclude(Clock::time_point now);
  void begin_acting(Clock::time_point now);
  void end_acting(Clock::time_point now);
  void finish(const std::string& action);

  void phase_over(Clock::time_point now);
  void out_of_time(Clock::time_point now);
  bool take_faults(Clock::time_point now);  // of a round of all nodes; true: the check goes another way
  void advance_pair(Pair& pair, Clock::time_point now);
  void measure_pair(Pair& pair, int warmups, int iterations, Clock::time_point now);
  void note_rails(const Pair& pair);
  void pair_over(Pair& pair, localization::Finding finding, std::vector<std::size_t> lost = {});
  [[nodiscard]] std::array<std::size_t, 2> members_of(const Pair& pair) const {
    return {ranks_[pair.nodes.a], ranks_[pair.nodes.b]};
  }
  void accuse(const localization::Suspect& culprit);

  // Small things.
  void send(std::size_t node, MessageType type, std::string payload);
  void await(const std::set<std::size_t>& nodes, Clock::duration limit, Clock::time_point now);
  void expect_answer(std::size_t node) { members_[node].expected = ++last_id_; }
  void measure_all(std::uint64_t bytes, int warmups, int iterations, Clock::duration limit,
                   Clock::time_point now);
  std::vector<double> combined(verdict::Operation operation, const std::vector<std::size_t>& nodes);
  [[nodiscard]] Limit node_limit(verdict::Operation operation, std::size_t node) const;
  [[nodiscard]] Limit limit_of(verdict::Operation operation, const std::vector<std::size_t>& nodes) const;
  [[nodiscard]] Clock::duration left_of(Clock::time_point now) const;
  [[nodiscard]] std::vector<std::size_t> deciders() const;
  void fault(std::size_t node, verdict::Class cls, bool culprit, const std::string& detail,
             const std::string& reason);
  void fault(std::size_t node, const Failed& failed);
  [[nodiscard]] std::vector<std::string> lines(verdict::Fate fate) const;
  [[nodiscard]] bool cuts_short(const Failed& failed) const;
  [[nodiscard]] Clock::duration opening_time(Clock::time_point now) const;
  [[nodiscard]] bool on_gpus() const;
  [[nodiscard]] std::uint64_t least_bytes() const;
  [[nodiscard]] std::uint64_t size_for(double seen, double limit, double least, double factor) const;
  [[nodiscard]] std::optional<std::size_t> first_here() const;
  [[nodiscard]] int ranks_in(const std::vector<std::size_t>& nodes) const;
  [[nodiscard]] std::string measured_text() const;
  [[nodiscard]] std::string alone_text() const;
  [[nodiscard]] std::string place_text() const;  // "on 4 nodes over hs0 (net)", "on 4x8 NVIDIA H200"
  void take_node_scope();
  bool mismatched(const std::vector<std::size_t>& nodes, bool versions);
  std::size_t index_of(const std::string& node) const;

  CoordinatorSettings settings_;
  Clock::time_point began_;
  Clock::time_point verdict_by_;
  Phase phase_ = Phase::joining;
  std::vector<Member> members_;
  std::vector<std::size_t> ranks_;  // members that measure together, in rank order
  std::set<std::size_t> pending_;   // whose answers the phase waits for
  Clock::time_point phase_limit_;   // the phase is over then, whoever has answered
  Clock::time_point round_limit_;   // the same before a failure shortened it
  std::map<std::size_t, engine::Samples> samples_;
  std::map<std::size_t, Failed> failures_;
  std::uint32_t last_id_ = 0;
  std::uint64_t last_seed_ = 0;
  std::uint64_t bytes_ = 0;     // of the collective
  std::vector<double> values_;  // busbw of the collective, per iteration
  std::uint64_t wrong_ = 0;
  std::string first_wrong_;
  std::string network_;         // what carries the data between the nodes, and what is to be said of that
  int round_ = 0;               // of pairing
  std::set<std::size_t> busy_;  // of pairs that were slow, and whose CPUs explain it
  double slowest_pair_ = 0;     // GB/s, of the pairs that were found fast
  std::string hang_text_;
  verdict::Class localizing_ = verdict::Class::pass;  // what is being localized
  std::set<std::size_t> spent_;  // whose worker hung or lost its peer and must be started anew
  std::map<std::string, std::string> leaf_of_;
  std::optional<localization::Localization> localization_;
  std::vector<Pair> pairs_;
  verdict::JobVerdict verdict_;
  std::map<std::size_t, Acted> acted_;
  std::optional<std::size_t> actor_;
  verdict::Fate fate_ = verdict::Fate::runs;
  std::vector<Outgoing> outgoing_;
};

}  // namespace nccl_check::job
