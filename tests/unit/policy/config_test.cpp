#include "policy/config.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/files.hpp"
#include "base/text.hpp"
#include "folder.hpp"
#include "policy/first_look.hpp"

namespace nccl_check::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verdict::Action;
using verdict::Class;
using verdict::Operation;

Loaded parse(const std::string& text) {
  return parse_config(text, "c.toml");
}

// The one error that a text gives.
std::string error(const std::string& text) {
  const auto loaded = parse(text);
  EXPECT_FALSE(loaded.config) << text;
  EXPECT_THAT(loaded.errors, SizeIs(1)) << text;
  return loaded.errors.empty() ? "" : loaded.errors.front().text();
}

// Every key=value of two configurations that a file can set, as text.
std::string everything(const Config& c) {
  std::string out;
  const auto add = [&](const auto& value) { out += testing::PrintToString(value) + ";"; };
  add(name(c.mode));
  add(name(c.when));
  add(c.partitions);
  add(c.scopes.node);
  add(c.scopes.job);
  add(c.deadline.count());
  add(c.join.count());
  add(c.users_may_decline);
  add(c.reuse.count());
  add(c.ports.first);
  add(c.ports.last);
  add(name(c.no_answer));
  add(name(c.engine));
  add(c.size);
  add(verdict::name(c.collective));
  add(c.provider);
  add(c.interfaces);
  add(c.library);
  add(c.user);
  add(c.memory);
  add(c.limits.size());
  for (auto action : c.actions) add(verdict::name(action));
  add(c.strikes);
  add(c.strike_window.count());
  add(c.breaker_nodes);
  add(c.breaker_percent);
  add(c.breaker_window.count());
  return out;
}

std::string shipped() {
  const auto text = read_file(NCCL_CHECK_ETC "/nccl-check.toml", most_config_bytes, Trust::anyone);
  EXPECT_TRUE(text);
  return text ? *text : "";
}

TEST(Config, AnEmptyFileGivesTheDefaults) {
  const auto loaded = parse("");
  ASSERT_TRUE(loaded.config);
  EXPECT_EQ(everything(*loaded.config), everything(Config{}));
  EXPECT_EQ(loaded.config->mode, Mode::observe);
}

TEST(Config, TheShippedFileIsValidAndChangesNothing) {
  const auto loaded = parse(shipped());
  ASSERT_TRUE(loaded.config);
  EXPECT_EQ(everything(*loaded.config), everything(Config{}));
}

// The shipped file shows every key with its default: what it says, once the '#' is gone, is what the program
// does.
TEST(Config, TheShippedFileShowsTheDefaults) {
  std::string text;
  bool in_limit = false;
  int shown = 0;
  for (const auto& line : split(shipped(), '\n')) {
    std::string_view bare = line;
    if (bare.starts_with("#[[limit]]")) in_limit = true;
    if (bare.starts_with("[")) in_limit = false;
    if (bare.starts_with("#") && bare.size() > 1 && bare[1] != ' ' && !in_limit) {
      bare.remove_prefix(1);
      ++shown;
    }
    if (!bare.starts_with("#")) text += std::string(bare) + "\n";
  }
  const auto loaded = parse(text);
  ASSERT_THAT(loaded.errors, IsEmpty()) << loaded.errors.front().text();
  EXPECT_EQ(everything(*loaded.config), everything(Config{}));
  EXPECT_EQ(shown, 32) << "a key is missing in etc/nccl-check.toml, or a new one is to be counted here";
}

TEST(Config, TheShippedFilesLimitIsValid) {
  std::string text;
  for (const auto& line : split(shipped(), '\n')) {
    if (line.starts_with("#[[limit]]")) text = "[[limit]]\n";
    if (!text.empty() && line.starts_with("#") && line.find('=') != std::string::npos && line[1] != ' ')
      text += line.substr(1) + "\n";
    if (!text.empty() && line.empty()) break;
  }
  const auto loaded = parse(text);
  ASSERT_TRUE(loaded.config) << text << loaded.errors.front().text();
  ASSERT_THAT(loaded.config->limits, SizeIs(1));
  EXPECT_THAT(loaded.config->limits[0].nodes, SizeIs(128));
  EXPECT_EQ(loaded.config->limits[0].busbw, 330.0);
}

TEST(Config, EveryKeyIsRead) {
  const auto loaded = parse(R"(
mode = "enforce"
when = "always"
partitions = ["gpu", "debug"]
scopes = ["job"]
deadline = "20s"
join = 2
users_may_decline = false
reuse = "0"
ports = "50000-50999"
no_answer = "allow"
[measure]
engine = "fabric"
size = "8M"
collective = "send_recv"
[fabric]
provider = "tcp;ofi_rxm"
interfaces = ["hsn0", "hsn1"]
library = "/opt/libfabric.so"
[worker]
user = "checker"
memory = 0
[actions]
slow = "drain"
hung = "warn"
corrupt = "fail-job"
broken = "allow"
mismatched = "warn"
untested = "fail-job"
[strikes]
count = 3
window = "2d"
[breaker]
nodes = 1
percent = 2.5
window = "1h"
)");
  ASSERT_TRUE(loaded.config) << loaded.errors.front().text();
  const auto& c = *loaded.config;
  EXPECT_EQ(c.mode, Mode::enforce);
  EXPECT_EQ(c.when, When::always);
  EXPECT_THAT(c.partitions, ElementsAre("gpu", "debug"));
  EXPECT_EQ(c.scopes, (Scopes{false, true}));
  EXPECT_EQ(c.deadline, milliseconds(20'000));
  EXPECT_EQ(c.join, milliseconds(2'000));
  EXPECT_FALSE(c.users_may_decline);
  EXPECT_EQ(c.reuse.count(), 0);
  EXPECT_EQ(c.ports, (Ports{50000, 50999}));
  EXPECT_EQ(c.no_answer, NoAnswer::allow);
  EXPECT_EQ(c.engine, EngineChoice::fabric);
  EXPECT_EQ(c.size, 8U << 20U);
  EXPECT_EQ(c.collective, Operation::send_recv);
  EXPECT_EQ(c.provider, "tcp;ofi_rxm");
  EXPECT_THAT(c.interfaces, ElementsAre("hsn0", "hsn1"));
  EXPECT_EQ(c.library, "/opt/libfabric.so");
  EXPECT_EQ(c.user, "checker");
  EXPECT_EQ(c.memory, 0U);
  EXPECT_EQ(c.action(Class::slow), Action::drain);
  EXPECT_EQ(c.action(Class::hung), Action::warn);
  EXPECT_EQ(c.action(Class::corrupt), Action::fail_job);
  EXPECT_EQ(c.action(Class::broken), Action::allow);
  EXPECT_EQ(c.action(Class::mismatched), Action::warn);
  EXPECT_EQ(c.action(Class::untested), Action::fail_job);
  EXPECT_EQ(c.action(Class::pass), Action::allow);
  EXPECT_EQ(c.strikes, 3);
  EXPECT_EQ(c.strike_window, std::chrono::hours(48));
  EXPECT_EQ(c.breaker_nodes, 1);
  EXPECT_EQ(c.breaker_percent, 2.5);
  EXPECT_EQ(c.breaker_window, std::chrono::hours(1));
}

TEST(Config, AnErrorNamesTheLineAndWhatIsAllowed) {
  EXPECT_EQ(error("\nmode = \"enforced\"\n"),
            "c.toml:2: mode: 'enforced' is not a word of it (allowed: observe, enforce)");
  EXPECT_THAT(error("mood = 1"),
              HasSubstr("c.toml:1: unknown key 'mood' at the top (allowed there: mode, when,"));
  EXPECT_THAT(error("[actions]\nslowly = \"warn\""),
              HasSubstr("c.toml:2: unknown key 'slowly' in [actions]"));
  EXPECT_THAT(error("[acts]\n"), HasSubstr("unknown section [acts] (allowed: [limit], [measure], [fabric]"));
  EXPECT_THAT(error("measure = 3"), HasSubstr("unknown key 'measure' at the top"));
  EXPECT_THAT(error("mode = 3"), HasSubstr("mode: is an integer, not a text"));
  EXPECT_THAT(error("users_may_decline = \"yes\""), HasSubstr("is a text"));
  EXPECT_THAT(error("deadline = \"11m\""), HasSubstr("'11m' is out of range (allowed: 1s to 10m)"));
  EXPECT_THAT(error("deadline = \"soon\""), HasSubstr("'soon' is not a time"));
  EXPECT_THAT(error("deadline = -3"), HasSubstr("deadline"));
  EXPECT_THAT(error("deadline = \"3s\""), HasSubstr("join is longer than the deadline"));
  EXPECT_THAT(error("ports = \"61000\""), HasSubstr("not a range of ports"));
  EXPECT_THAT(error("ports = \"61000-61003\""), HasSubstr("16 ports at least"));
  EXPECT_THAT(error("ports = \"61000-70000\""), HasSubstr("not a range"));
  EXPECT_THAT(error("ports = \"1K-61000\""), HasSubstr("not a range"));
  EXPECT_THAT(error("scopes = []"), HasSubstr("names no scope"));
  EXPECT_THAT(error("scopes = [\"nodes\"]"), HasSubstr("'nodes' is not a scope"));
  EXPECT_THAT(error("partitions = \"gpu\""), HasSubstr("is a text, not an array"));
  EXPECT_THAT(error("[measure]\nengine = \"mpi\""), HasSubstr("c.toml:2: measure.engine"));
  EXPECT_THAT(error("[measure]\nsize = \"1T\""), HasSubstr("not a size"));
  EXPECT_THAT(error("[measure]\nsize = 100"), HasSubstr("out of range (allowed: 1K to 64G)"));
  EXPECT_THAT(error("[fabric]\ninterfaces = [\"a b\"]"), HasSubstr("has a character that it can't have"));
  EXPECT_THAT(error("[fabric]\nlibrary = \"lib.so\""), HasSubstr("not an absolute path"));
  EXPECT_THAT(error("[worker]\nuser = \"root\""), HasSubstr("'root' can't measure"));
  EXPECT_THAT(error("[actions]\nuntested = \"drain\""), HasSubstr("no node is to blame"));
  EXPECT_THAT(error("[actions]\nmismatched = \"strike\""), HasSubstr("no node is to blame"));
  EXPECT_THAT(error("[actions]\npass = \"drain\""), HasSubstr("unknown key 'pass'"));
  EXPECT_THAT(error("[strikes]\ncount = 0"), HasSubstr("0 is out of range (allowed: 1 to 100)"));
  EXPECT_THAT(error("[strikes]\ncount = 2.0"), HasSubstr("is a decimal number, not an integer"));
  EXPECT_THAT(error("[breaker]\npercent = nan"), HasSubstr("out of range"));
  EXPECT_THAT(error("[breaker]\npercent = -1"), HasSubstr("out of range"));
  EXPECT_THAT(error("mode = \"observe\"\nmode = \"enforce\""), HasSubstr("c.toml:2: is not TOML"));
  EXPECT_THAT(error("mode = \n"), HasSubstr("c.toml:1: is not TOML"));
}

TEST(Config, AllErrorsComeAtOnceInTheFilesOrder) {
  const auto loaded =
      parse("mode = \"x\"\nwhen = \"y\"\n[strikes]\ncount = 0\n[nonsense]\na = 1\n[actions]\nslow = \"z\"\n");
  EXPECT_FALSE(loaded.config);
  std::vector<std::string> places;
  for (const auto& e : loaded.errors) places.push_back(e.where);
  EXPECT_THAT(places, ElementsAre("c.toml:1", "c.toml:2", "c.toml:4", "c.toml:5", "c.toml:8"));
}

TEST(Config, ALimitSaysForWhatItIs) {
  EXPECT_THAT(error("[[limit]]\nbusbw = 3"), HasSubstr("a [[limit]] without 'operation'"));
  EXPECT_THAT(error("[[limit]]\noperation = \"all_reduce\""), HasSubstr("a [[limit]] without 'busbw'"));
  EXPECT_THAT(error("[[limit]]\noperation = \"reduce\"\nbusbw = 3"),
              HasSubstr("'reduce' is not a word of it"));
  EXPECT_THAT(error("[[limit]]\noperation = \"all_reduce\"\nbusbw = 0"),
              HasSubstr("limit.busbw: 0 is out of range"));
  EXPECT_THAT(error("[[limit]]\noperation = \"all_reduce\"\nbusbw = 1\nnodes = \"n[1-\""),
              HasSubstr("is not a host list"));
  EXPECT_THAT(error("[[limit]]\noperation = \"all_reduce\"\nbusbw = 1\nnode = \"n1\""),
              HasSubstr("unknown key 'node' in [[limit]]"));
  EXPECT_THAT(error("[limit]\nbusbw = 1"), HasSubstr("write [[limit]] before each"));
}

TEST(Config, TheFirstLimitThatFitsIsTaken) {
  const auto loaded = parse(R"(
[[limit]]
nodes = "n[2-3]"
operation = "all_reduce"
busbw = 1.0
[[limit]]
partition = "gpu"
operation = "all_reduce"
busbw = 2.0
from_size = "1G"
[[limit]]
operation = "all_reduce"
busbw = 3.0
from_size = "64M"
[[limit]]
operation = "memory_copy"
busbw = 4.0
)");
  ASSERT_TRUE(loaded.config);
  const auto busbw = [&](const std::vector<std::string>& nodes, const std::string& partition, Operation op,
                         std::uint64_t bytes) {
    const auto* rule = find_limit(*loaded.config, nodes, partition, op, bytes);
    return rule == nullptr ? 0.0 : rule->busbw;
  };
  constexpr std::uint64_t gib = 1U << 30U;
  EXPECT_EQ(busbw({"n2", "n3"}, "gpu", Operation::all_reduce, gib), 1);
  EXPECT_EQ(busbw({"n2", "n4"}, "gpu", Operation::all_reduce, gib), 2)
      << "not all of the nodes are the rule's";
  EXPECT_EQ(busbw({"n2", "n4"}, "gpu", Operation::all_reduce, gib / 2), 3)
      << "a smaller message is not judged by it";
  EXPECT_EQ(busbw({"n1"}, "cpu", Operation::all_reduce, gib), 3);
  EXPECT_EQ(busbw({"n1"}, "cpu", Operation::all_reduce, 1024), 0);
  EXPECT_EQ(busbw({"n1"}, "cpu", Operation::send_recv, gib), 0);
  EXPECT_EQ(busbw({"n1"}, "cpu", Operation::memory_copy, gib), 4);
}

TEST(Config, ALimitIsForTheSitesOwnSizeUnlessItSaysSo) {
  const auto loaded = parse("[[limit]]\noperation = \"send_recv\"\nbusbw = 1\n[measure]\nsize = \"16M\"\n");
  ASSERT_TRUE(loaded.config);
  EXPECT_EQ(loaded.config->limits.at(0).from_size, 16U << 20U);
  EXPECT_NE(find_limit(*loaded.config, {"n1"}, "", Operation::send_recv, 16U << 20U), nullptr);
  EXPECT_EQ(find_limit(*loaded.config, {"n1"}, "", Operation::send_recv, 4096), nullptr);
}

TEST(Config, ALimitForEightGpusDoesNotJudgeTwo) {
  const auto loaded = parse("[[limit]]\ngpus = 8\noperation = \"all_reduce\"\nbusbw = 440\n");
  ASSERT_TRUE(loaded.config) << loaded.errors.front().text();
  const auto rule = [&](int gpus) {
    return find_limit(*loaded.config, {"n1"}, "", Operation::all_reduce, 1ULL << 30U, gpus);
  };
  EXPECT_NE(rule(8), nullptr);
  EXPECT_EQ(rule(2), nullptr);
  EXPECT_EQ(rule(0), nullptr);
}

TEST(Config, AFileThatOthersCanWriteIsNotTaken) {
  const test::Folder folder;
  const auto path = folder.write("c.toml", "mode = \"enforce\"\n");
  ::chmod(path.c_str(), 0644);
  EXPECT_TRUE(load_config(path).config);
  ::chmod(path.c_str(), 0664);
  auto loaded = load_config(path);
  EXPECT_FALSE(loaded.config);
  ASSERT_THAT(loaded.errors, SizeIs(1));
  EXPECT_THAT(loaded.errors[0].text(), HasSubstr("so others can write it"));
  ::chmod(path.c_str(), 0644);
  ::chmod(folder.path().c_str(), 0777);
  EXPECT_FALSE(load_config(path).config) << "in its folder anybody could put another file in its place";
  ::chmod(folder.path().c_str(), 0755);
  std::filesystem::create_symlink(path, folder.file("link"));
  EXPECT_FALSE(load_config(folder.file("link")).config);
  EXPECT_THAT(load_config(folder.file("none")).errors, SizeIs(1));
  folder.write("large", std::string(most_config_bytes + 1, '#'));
  EXPECT_FALSE(load_config(folder.file("large")).config);
}

TEST(FirstLook, OnlyWhatIsPlainlyNotAskedForIsLeftAlone) {
  const auto closer = [](const std::string& text) { return first_look(text) == FirstLook::look_closer; };
  EXPECT_FALSE(closer(""));
  EXPECT_FALSE(closer(shipped()));
  EXPECT_FALSE(closer("mode = \"enforce\"\n[measure]\nwhen = \"always\"\n")) << "that key is not the top's";
  EXPECT_FALSE(closer("  when\t=  \"requested\"   # as shipped\r\n"));
  EXPECT_TRUE(closer("when = \"always\""));
  EXPECT_TRUE(closer("when = \"never\""));
  EXPECT_TRUE(closer("when = 'requested'"));
  EXPECT_TRUE(closer("\"when\" = \"always\""));
  EXPECT_TRUE(closer("when.x = 1"));
  EXPECT_TRUE(closer("whenever = 1"));
  EXPECT_TRUE(closer("when = \"requested\", 3"));
  EXPECT_TRUE(closer("\"\\u0077hen\" = \"always\"")) << "an escape can spell anything";
  EXPECT_TRUE(closer("mode = \"\"\"\nx\"\"\"\nwhen = \"always\""))
      << "a text over several lines can hide anything";
  EXPECT_EQ(first_look_at("/nonexistent/c.toml"), FirstLook::look_closer)
      << "so that the gate names what is wrong";
}

}  // namespace
}  // namespace nccl_check::policy
