#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "node/interfaces.hpp"
#include "ring.hpp"

namespace nccl_check::engine::fabric {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using verdict::Class;
using verdict::Operation;

Deadline soon(int seconds = 30) {
  return Deadline::in(std::chrono::seconds(seconds));
}

Task task(Operation operation, std::uint64_t bytes, std::uint64_t seed) {
  Task task;
  task.operation = operation;
  task.bytes = bytes;
  task.iterations = 2;
  task.seed = seed;
  return task;
}

std::string text(const Failure& failure) {
  return fmt::format("{}: {}", verdict::name(failure.cls), failure.error.text());
}

// Empty if the task went well, with nothing wrong in the data.
std::string done(Rank& rank, const Task& task) {
  auto samples = rank.engine.measure(task, soon());
  const auto what = fmt::format("{} of {} bytes: ", verdict::name(task.operation), task.bytes);
  if (!samples) return what + text(samples.failure());
  if (samples->wrong != 0) return what + fmt::format("{} wrong, {}", samples->wrong, samples->first_wrong);
  if (samples->times.size() != static_cast<std::size_t>(task.iterations)) return what + "samples are missing";
  return "";
}

RingOf of(int ranks, Tamper tamper = {}) {
  RingOf ring;
  ring.ranks = ranks;
  ring.tamper = std::move(tamper);
  return ring;
}

class Rings : public testing::TestWithParam<int> {};

// Odd sizes: nothing, less than an element, one, fewer than ranks, not divisible, several chunks and one
// element.
TEST_P(Rings, EveryOperationAndSizeIsExact) {
  const int ranks = GetParam();
  const auto said = run_ring(of(ranks), [&](Rank& rank) -> std::string {
    auto connected = rank.engine.connect(rank.place, soon());
    if (!connected) return text(connected.failure());
    std::uint64_t seed = 1;
    for (const auto operation : {Operation::all_reduce, Operation::all_gather, Operation::send_recv}) {
      for (const std::uint64_t bytes : {0, 3, 4, 16, 1000, 131072, 1'000'004, 3'333'336}) {
        auto one = task(operation, bytes, ++seed);
        if (operation == Operation::send_recv) {  // neighbours pair up; an odd one sits it out
          const int partner = rank.place.rank ^ 1;
          one.partner_rank = partner < ranks ? partner : rank.place.rank;
          one.partner = rank.addresses[static_cast<std::size_t>(one.partner_rank)];
          if (one.partner_rank == rank.place.rank) continue;
        }
        if (auto wrong = done(rank, one); !wrong.empty()) return wrong;
      }
    }
    rank.meet();
    return "";
  });
  EXPECT_THAT(said, Each("")) << ranks << " ranks";
}
INSTANTIATE_TEST_SUITE_P(Fabric, Rings, testing::Values(1, 2, 3, 4, 5));

TEST(Fabric, PairsChangeWithoutARing) {
  const auto said = run_ring(of(4), [](Rank& rank) -> std::string {
    rank.place.next.clear();
    rank.place.previous.clear();
    auto connected = rank.engine.connect(rank.place, soon());
    if (!connected) return text(connected.failure());
    auto ring = rank.engine.measure(task(Operation::all_reduce, 1000, 1), soon());
    if (ring) return "an all_reduce without a ring";
    for (const int distance : {1, 2, 3, 1}) {
      auto one =
          task(Operation::send_recv, 500'000, 9);  // the same seed each time: pairs tell their messages apart
      one.partner_rank = rank.place.rank ^ distance;
      one.partner = rank.addresses[static_cast<std::size_t>(one.partner_rank)];
      if (auto wrong = done(rank, one); !wrong.empty()) return wrong;
    }
    rank.meet();
    return "";
  });
  EXPECT_THAT(said, Each(""));
}

std::string interface_beside_loopback() {
  const auto links = node::read_links();
  if (!links) return "";
  for (const auto& link : *links)
    if (link.up && link.running && !link.loopback && !link.addresses.empty() &&
        link.addresses[0].family == node::Address::Family::v4)
      return link.name;
  return "";
}

TEST(Fabric, MessagesAreStripedOverTheRailsThatBothHave) {
  const std::string second = interface_beside_loopback();
  if (second.empty()) GTEST_SKIP() << "there is no interface with an IPv4 address beside lo";
  RingOf ring;
  ring.ranks = 3;
  ring.settings = [&](int rank) {
    Settings settings = RingOf::over("lo");
    if (rank != 2) settings.interfaces.push_back(second);
    return settings;
  };
  const auto said = run_ring(ring, [](Rank& rank) -> std::string {
    auto connected = rank.engine.connect(rank.place, soon());
    if (!connected) return text(connected.failure());
    for (const auto operation : {Operation::all_reduce, Operation::all_gather})
      if (auto wrong = done(rank, task(operation, 5'000'000, 1)); !wrong.empty()) return wrong;
    rank.meet();
    return "";
  });
  EXPECT_THAT(said, Each(""));
}

TEST(Fabric, OneFlippedBitIsFound) {
  for (const auto operation : {Operation::all_reduce, Operation::all_gather, Operation::send_recv}) {
    const Tamper flip = [](std::span<std::byte> result) { result[40'002] ^= std::byte{0x10}; };
    const auto said = run_ring(of(2, flip), [&](Rank& rank) -> std::string {
      auto connected = rank.engine.connect(rank.place, soon());
      if (!connected) return text(connected.failure());
      auto one = task(operation, 1'000'000, 5);
      one.partner_rank = 1 - rank.place.rank;
      one.partner = rank.place.next;
      auto samples = rank.engine.measure(one, soon());
      if (!samples) return text(samples.failure());
      rank.meet();
      return fmt::format("{} wrong, {}", samples->wrong, samples->first_wrong);
    });
    EXPECT_THAT(said, Each(AllOf(HasSubstr("1 wrong, element 10000: got "), HasSubstr(", expected "))));
  }
}

TEST(Fabric, AKilledPeerEndsTheWaitByTheDeadline) {
  const auto said = run_ring(of(3), [](Rank& rank) -> std::string {
    auto connected = rank.engine.connect(rank.place, soon());
    if (!connected) return text(connected.failure());
    rank.meet();
    if (rank.place.rank == 1) raise(SIGKILL);
    auto long_task = task(Operation::all_reduce, 4'000'000, 1);
    long_task.iterations = 1000;
    const auto start = Clock::now();
    auto samples = rank.engine.measure(long_task, Deadline::in(std::chrono::seconds(2)));
    const auto took = Clock::now() - start;
    if (samples) return "it measured with a dead peer";
    if (took > Milliseconds(2500)) return "it took longer than the deadline";
    auto again = rank.engine.measure(task(Operation::all_reduce, 4, 2), soon(1));
    if (again || again.failure().error.text().find("start a fresh one") == std::string::npos)
      return "it goes on after a failure";
    return text(samples.failure());
  });
  EXPECT_EQ(said[1], "ended without a word");
  for (const int other : {0, 2}) {
    EXPECT_THAT(said[other], HasSubstr("rank 1 ("));
    EXPECT_THAT(said[other], testing::Not(HasSubstr(fmt::format("rank {} (", 2 - other))))
        << "who lives is not named";
  }
}

TEST(Fabric, AStoppedPeerIsAHangThatNamesIt) {
  const auto said = run_ring(of(2), [](Rank& rank) -> std::string {
    auto connected = rank.engine.connect(rank.place, soon());
    if (!connected) return text(connected.failure());
    rank.meet();
    if (rank.place.rank == 1) {
      rank.meet();
      return "";
    }
    auto samples =
        rank.engine.measure(task(Operation::all_reduce, 1'000'000, 1), Deadline::in(Milliseconds(700)));
    rank.meet();
    return samples ? "it measured alone" : text(samples.failure());
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("hung: all_reduce: the deadline passed"), HasSubstr("rank 1 (")));
}

TEST(Fabric, APeerThatNeverConnectsIsAHangThatNamesIt) {
  const auto said = run_ring(of(2), [](Rank& rank) -> std::string {
    if (rank.place.rank == 1) {
      rank.meet();
      return "";
    }
    auto connected = rank.engine.connect(rank.place, Deadline::in(Milliseconds(500)));
    rank.meet();
    return connected ? "it connected" : text(connected.failure());
  });
  EXPECT_THAT(said[0],
              AllOf(HasSubstr("hung: connecting: the deadline passed"), HasSubstr("rank 1 (previous)")));
}

TEST(Fabric, SignsOfLifeComeWhileWaiting) {
  const auto said = run_ring(of(2), [](Rank& rank) -> std::string {
    if (rank.place.rank == 1) {
      rank.meet();
      return "";
    }
    std::vector<Clock::time_point> beats;
    FabricEngine engine([&] { beats.push_back(Clock::now()); });
    auto opened = engine.open(RingOf::over("lo"), soon());
    if (!opened) return text(opened.failure());
    beats.push_back(Clock::now());
    (void)engine.connect(rank.place, Deadline::in(Milliseconds(1000)));
    beats.push_back(Clock::now());
    rank.meet();
    for (std::size_t i = 1; i < beats.size(); ++i)
      if (beats[i] - beats[i - 1] > Milliseconds(300)) return "no sign of life for 300 ms";
    return beats.size() < 8 ? fmt::format("only {} signs of life", beats.size()) : "";
  });
  EXPECT_THAT(said, Each(""));
}

TEST(Fabric, APeersRubbishIsRefusedByName) {
  const auto said = run_ring(of(2), [](Rank& rank) -> std::string {
    std::string all;
    for (const char* rubbish : {"rubbish", "fabric1 cxi 1:00", "fabric1 net 2:02",
                                "fabric1 net 2:ffff000000000000000000"
                                "0000000000",
                                "fabric1 net 3:0a00"}) {
      auto place = rank.place;
      place.next = rubbish;
      auto connected = rank.engine.connect(place, soon(2));
      all += connected ? "accepted!" : text(connected.failure()) + "\n";
    }
    rank.meet();
    return all;
  });
  for (const auto& one : said) {
    EXPECT_THAT(one, AllOf(HasSubstr("untested: address of rank"), HasSubstr("'rubbish'"),
                           HasSubstr("mismatched: address of rank"), HasSubstr("provider is 'cxi'"),
                           HasSubstr("of another kind"), testing::Not(HasSubstr("accepted"))));
  }
}

TEST(Fabric, TasksThatCannotBeAreRefused) {
  const auto said = run_ring(of(1), [](Rank& rank) -> std::string {
    const auto refused = [&](const Task& task) {
      auto samples = rank.engine.measure(task, soon(1));
      return samples ? std::string("accepted\n") : text(samples.failure()) + "\n";
    };
    std::string all = refused(task(Operation::all_reduce, 4, 1));
    if (!rank.engine.connect(rank.place, soon())) return "no connect";
    auto none = task(Operation::all_reduce, 4, 1);
    none.iterations = 0;
    all += refused(none) + refused(task(Operation::all_reduce, 65U << 20U, 1));
    auto bad_partner = task(Operation::send_recv, 4, 1);
    bad_partner.partner_rank = 3;
    all += refused(bad_partner);
    auto alone = rank.engine.measure_alone(task(Operation::all_reduce, 4, 1), soon(1));
    all += alone ? "accepted" : text(alone.failure());
    return all;
  });
  EXPECT_THAT(said[0],
              AllOf(HasSubstr("not been connected"), HasSubstr("at least one iteration"),
                    HasSubstr("larger buffers than 64 MiB"), HasSubstr("address of rank 3"),
                    HasSubstr("can't be measured on one node alone"), testing::Not(HasSubstr("accepted"))));
}

TEST(Fabric, DescribesItself) {
  const auto said = run_ring(of(1), [](Rank&) -> std::string {
    FabricEngine engine([] {});
    auto opened = engine.open(RingOf::over("lo"), soon());
    if (!opened) return text(opened.failure());
    const auto& d = opened->description;
    if (d.engine != "fabric" || d.ranks != 1 || d.devices != std::vector<std::string>{"lo"})
      return "engine or devices";
    if (d.versions.at("libfabric").empty() || d.device_text != "lo (" + d.versions.at("provider") + ")")
      return "versions";
    if (d.line_rate != 0) return "lo has no rate";
    return opened->address.size() > most_text ? "address" : "";
  });
  EXPECT_THAT(said, Each(""));
}

// In a child each: a library is loaded, and signal handlers may change.
TEST(Fabric, AMissingLibraryIsNamedWithWhatToInstall) {
  const auto said = run_ring(of(1), [](Rank&) -> std::string {
    FabricEngine engine([] {});
    Settings settings;
    settings.library = "/nowhere/libfabric.so.1";
    auto opened = engine.open(settings, soon());
    return opened ? "opened" : text(opened.failure());
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("untested: libfabric could not be opened"),
                             HasSubstr("/nowhere/libfabric.so.1"), HasSubstr("install libfabric1")));
}

TEST(Fabric, ALibraryThatIsNoneIsNamed) {
  const auto said = run_ring(of(1), [](Rank&) -> std::string {
    FabricEngine engine([] {});
    Settings settings;
    settings.library = "libm.so.6";
    auto opened = engine.open(settings, soon());
    return opened ? "opened" : text(opened.failure());
  });
  EXPECT_THAT(said[0], HasSubstr("libm.so.6 is no libfabric"));
}

TEST(Fabric, SignalHandlersAreAsBefore) {
  const auto said = run_ring(of(1), [](Rank&) -> std::string {
    // The ring's own engine has loaded everything: what matters is that SIGTERM still ends this process.
    struct sigaction now {};
    for (const int signal : {SIGTERM, SIGINT, SIGABRT}) {
      sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_DFL) return fmt::format("the handler of signal {} was replaced", signal);
    }
    return "";
  });
  EXPECT_THAT(said, Each(""));
}

TEST(Fabric, UnknownInterfacesAndProvidersAreNamed) {
  const auto said = run_ring(of(1), [](Rank&) -> std::string {
    std::string all;
    Settings no_provider;
    no_provider.provider = "nosuch";
    for (const auto& settings : {RingOf::over("nosuch0"), no_provider}) {
      FabricEngine engine([] {});
      auto opened = engine.open(settings, soon());
      all += opened ? "opened" : text(opened.failure()) + "\n";
    }
    return all;
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("no interface 'nosuch0'"), HasSubstr("lo (127.0.0.1)"),
                             HasSubstr("no provider 'nosuch'"), HasSubstr("there are: ")));
}

}  // namespace
}  // namespace nccl_check::engine::fabric
