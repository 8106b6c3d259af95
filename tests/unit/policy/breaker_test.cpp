#include "policy/breaker.hpp"

#include <gmock/gmock.h>

#include <random>

namespace nccl_check::policy {
namespace {

using testing::HasSubstr;

Config bounds(int nodes, double percent) {
  Config c;
  c.breaker_nodes = nodes;
  c.breaker_percent = percent;
  c.breaker_window = std::chrono::hours(1);
  return c;
}

Reason drained(const std::string& node, std::int64_t time) {
  return {node, "nccl-check: x", time, {"main"}};
}

TEST(Breaker, TheOldestStay) {
  const Reasons reasons{{drained("n3", 100), drained("n1", 101)}, {{"main", 100}}};
  EXPECT_EQ(beyond_bound(bounds(1, 0), reasons, "n3", "main", 200), "");
  EXPECT_THAT(beyond_bound(bounds(1, 0), reasons, "n1", "main", 200), HasSubstr("allows 1 drained in 1 h"));
  EXPECT_EQ(beyond_bound(bounds(2, 0), reasons, "n1", "main", 200), "");
  EXPECT_EQ(beyond_bound(bounds(0, 0), reasons, "n1", "main", 200), "") << "no bounds at all";
}

TEST(Breaker, TheNameDecidesWithinASecond) {
  const Reasons reasons{{drained("n3", 100), drained("n1", 100)}, {{"main", 100}}};
  EXPECT_EQ(beyond_bound(bounds(1, 0), reasons, "n1", "main", 200), "");
  EXPECT_NE(beyond_bound(bounds(1, 0), reasons, "n3", "main", 200), "");
}

TEST(Breaker, OldDrainsDoNotCount) {
  const Reasons reasons{{drained("n3", 100), drained("n1", 4000)}, {{"main", 100}}};
  EXPECT_EQ(beyond_bound(bounds(1, 0), reasons, "n1", "main", 4000), "");
  EXPECT_NE(beyond_bound(bounds(1, 0), reasons, "n1", "main", 3600), "");
}

TEST(Breaker, PercentIsOfThePartitionAndOneAtLeast) {
  Reasons reasons{{drained("n1", 100), drained("n2", 101), drained("n3", 102)}, {{"main", 20}, {"tiny", 3}}};
  EXPECT_EQ(beyond_bound(bounds(0, 10), reasons, "n2", "main", 200), "");
  EXPECT_THAT(beyond_bound(bounds(0, 10), reasons, "n3", "main", 200),
              HasSubstr("2 drained of partition main"));
  reasons.nodes[2].partitions = {"tiny"};
  EXPECT_EQ(beyond_bound(bounds(0, 10), reasons, "n3", "tiny", 200), "") << "one is always allowed";
  EXPECT_EQ(beyond_bound(bounds(0, 10), reasons, "n3", "unknown", 200), "");
}

TEST(Breaker, ANodeThatIsNotAmongThemIsTheNewest) {
  const Reasons reasons{{drained("n1", 100)}, {{"main", 100}}};
  EXPECT_NE(beyond_bound(bounds(1, 0), reasons, "n2", "main", 200), "");
}

// Gates that drain within a few seconds of each other, each looking breaker_wait after its own drain at what
// slurmctld shows then: whatever the order, exactly `bound` drains stay.
TEST(Breaker, GatesAtTheSameMomentAgree) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const int gates = 2 + static_cast<int>(random() % 6);
    const int bound = 1 + static_cast<int>(random() % 3);
    struct Event {
      int at_ms;
      bool look;
      int gate;
    };
    std::vector<Event> events;
    for (int g = 0; g < gates; ++g) {
      const int at = static_cast<int>(random() % 3000);
      events.push_back({at, false, g});
      events.push_back(
          {at + static_cast<int>(breaker_wait.count()) + static_cast<int>(random() % 50), true, g});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at_ms < b.at_ms; });
    Reasons shown{{}, {{"main", 100}}};
    for (const auto& e : events) {
      const std::string node = "n" + std::to_string(e.gate);
      if (!e.look) {
        shown.nodes.push_back(drained(node, 1000 + e.at_ms / 1000));
      } else if (!beyond_bound(bounds(bound, 0), shown, node, "main", 1010).empty()) {
        std::erase_if(shown.nodes, [&](const Reason& r) { return r.node == node; });
      }
    }
    EXPECT_EQ(static_cast<int>(shown.nodes.size()), std::min(gates, bound)) << "round " << round;
  }
}

}  // namespace
}  // namespace nccl_check::policy
