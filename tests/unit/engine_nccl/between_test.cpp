// Several nodes on stand-ins: all ranks together, and pairs with and without a communicator over all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "nodes.hpp"

namespace nccl_check::engine::nccl {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using verdict::Operation;

constexpr const char* two_gpus = "gpus = 2\nnoise = 0\n";

std::string samples_text(const Samples& samples) {
  return std::to_string(samples.bytes) + " bytes, " + std::to_string(samples.times.size()) + " times, " +
         std::to_string(samples.wrong) + " wrong, " + std::to_string(samples.rails.size()) + " rails";
}

Task task_of(Operation operation, std::uint64_t seed) {
  Task out;
  out.operation = operation;
  out.bytes = 256U << 10U;
  out.seed = seed;
  return out;
}

// Opens and tells its address; the failure's text, or nothing.
std::string open(Engine& engine, const Tell& tell, std::vector<std::string>& addresses) {
  auto opened = engine.open(on_doubles(), soon());
  if (!opened) return text_of(opened.failure());
  addresses = tell(opened->address);
  return "";
}

// All ranks' operations, and a pair on the same communicator; what each node says.
std::string together(Engine& engine, int worker, int hosts, int gpus, const Tell& tell) {
  std::vector<std::string> addresses;
  if (auto failed = open(engine, tell, addresses); !failed.empty()) return failed;
  auto connected = engine.connect({worker * gpus, hosts * gpus, "", "", addresses[0]}, soon());
  if (!connected) return text_of(connected.failure());
  std::vector<std::string> said{connected->network, connected->remark};
  for (const auto operation : {Operation::all_reduce, Operation::all_gather}) {
    auto samples = engine.measure(task_of(operation, 3), soon());
    if (!samples) return text_of(samples.failure());
    said.push_back(samples_text(*samples));
  }
  auto pair = task_of(Operation::send_recv, 5);
  pair.partner = addresses[static_cast<std::size_t>(worker ^ 1)];
  pair.partner_rank = (worker ^ 1) * gpus;
  auto samples = engine.measure(pair, soon());
  if (!samples) return text_of(samples.failure());
  said.push_back(samples_text(*samples));
  return join(said, "; ");
}

TEST(Between, AllRanksTogetherAndPairsOnTheSameCommunicator) {
  const auto said = run_nodes(two_gpus, 2, [](Engine& engine, int worker, const Tell& tell) {
    return together(engine, worker, 2, 2, tell);
  });
  EXPECT_THAT(said, Each(AllOf(StartsWith("IB "),
                               HasSubstr("; 262144 bytes, 5 times, 0 wrong, 0 rails; 262144 bytes"),
                               HasSubstr("524288 bytes, 5 times, 0 wrong, 2 rails"))));
}

TEST(Between, FreshWorkersMakePairsOfTheirOwnInEveryRound) {
  // n1 with n2 and n3 with n4, then n1 with n3 and n2 with n4.
  const auto said = run_nodes(two_gpus, 4, [](Engine& engine, int worker, const Tell& tell) -> std::string {
    std::vector<std::string> addresses;
    if (auto failed = open(engine, tell, addresses); !failed.empty()) return failed;
    auto connected = engine.connect({worker * 2, 8, "", "", ""}, soon());
    if (!connected) return text_of(connected.failure());
    std::string out;
    for (int round = 0; round < 2; ++round) {
      const int partner = worker ^ (round + 1);
      auto task = task_of(Operation::send_recv, static_cast<std::uint64_t>(round));
      task.partner = addresses[static_cast<std::size_t>(partner)];
      task.partner_rank = partner * 2;
      task.round = round;
      auto samples = engine.measure(task, soon());
      if (!samples) return text_of(samples.failure());
      out += samples_text(*samples) + "; ";
      tell("next");
    }
    return out;
  });
  EXPECT_THAT(said,
              Each("524288 bytes, 5 times, 0 wrong, 2 rails; 524288 bytes, 5 times, 0 wrong, 2 rails; "));
}

TEST(Between, NodesWithDifferentNumbersOfGpusShareTheRailsBothHave) {
  const auto said = run_nodes("gpus = 3\n[host n2]\ngpus = 1\n", 2,
                              [](Engine& engine, int worker, const Tell& tell) -> std::string {
                                std::vector<std::string> addresses;
                                if (auto failed = open(engine, tell, addresses); !failed.empty())
                                  return failed;
                                auto connected = engine.connect({worker == 0 ? 0 : 3, 4, "", "", ""}, soon());
                                if (!connected) return text_of(connected.failure());
                                auto task = task_of(Operation::send_recv, 1);
                                task.partner = addresses[static_cast<std::size_t>(1 - worker)];
                                task.partner_rank = worker == 0 ? 3 : 0;
                                auto samples = engine.measure(task, soon());
                                return samples ? samples_text(*samples) : text_of(samples.failure());
                              });
  EXPECT_THAT(said, Each("262144 bytes, 5 times, 0 wrong, 0 rails"));
}

TEST(Between, APartnerThatNeverComesIsHungAtTheDeadline) {
  const auto said = run_nodes(two_gpus, 2, [](Engine& engine, int worker, const Tell& tell) -> std::string {
    std::vector<std::string> addresses;
    if (auto failed = open(engine, tell, addresses); !failed.empty()) return failed;
    if (worker == 1) return "stays away";
    const auto begin = Clock::now();
    auto connected = engine.connect({0, 4, "", "", addresses[0]}, Deadline::in(Milliseconds(700)));
    if (connected) return "connected";
    if (Clock::now() - begin > Milliseconds(1200)) return "too late";
    return text_of(connected.failure());
  });
  EXPECT_THAT(said[0], AllOf(StartsWith("hung"), HasSubstr("over all nodes")));
}

TEST(Between, SocketsAreNamed) {
  const auto said = run_nodes(
      std::string(two_gpus) + "network = Socket\n", 2,
      [](Engine& engine, int worker, const Tell& tell) { return together(engine, worker, 2, 2, tell); });
  EXPECT_THAT(said, Each(StartsWith("Socket ")));
}

TEST(Between, GarbageForAnAddressIsUntested) {
  const auto said = run_nodes(two_gpus, 1, [](Engine& engine, int, const Tell& tell) -> std::string {
    std::vector<std::string> addresses;
    if (auto failed = open(engine, tell, addresses); !failed.empty()) return failed;
    auto connected = engine.connect({0, 4, "", "", "nccl1 2 00ff"}, soon());
    return connected ? "connected" : text_of(connected.failure());
  });
  EXPECT_THAT(said[0], AllOf(StartsWith("untested"), HasSubstr("unique id is malformed")));
}

}  // namespace
}  // namespace nccl_check::engine::nccl
