#include "option/spec.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace nccl_check::option {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

Spec good(std::string_view text) {
  auto result = parse(text);
  if (auto* bad = std::get_if<BadWord>(&result)) {
    ADD_FAILURE() << text << ": " << bad->line();
    return {};
  }
  return std::get<Spec>(result);
}

BadWord bad(std::string_view text) {
  auto result = parse(text);
  if (std::holds_alternative<Spec>(result)) {
    ADD_FAILURE() << "'" << text << "' was taken";
    return {};
  }
  return std::get<BadWord>(result);
}

std::string part(const BadWord& word) {
  return word.text.substr(word.column, word.length);
}

TEST(Spec, BareOptionArrivesInThreeSpellings) {
  EXPECT_EQ(good(normalise(nullptr)), Spec{});
  EXPECT_EQ(good(normalise("")), Spec{});
  EXPECT_EQ(good(normalise("(null)")), Spec{});
}

TEST(Spec, TakesEveryWord) {
  const auto spec = good("node,job,warn,busbw=44.5,size=256M,collective=all_gather,time=10s,force");
  EXPECT_TRUE(spec.node && spec.job && spec.force);
  EXPECT_FALSE(spec.off || spec.help);
  EXPECT_EQ(spec.consequence, Consequence::warn);
  EXPECT_EQ(spec.busbw, 44.5);
  EXPECT_EQ(spec.size, 256ULL << 20);
  EXPECT_EQ(spec.collective, Collective::all_gather);
  EXPECT_EQ(spec.time, milliseconds(10'000));
  EXPECT_EQ(good("strict").consequence, Consequence::strict);
  EXPECT_EQ(good("node").consequence, Consequence::unset);
  EXPECT_TRUE(good("off").off);
  EXPECT_TRUE(good("help").help);
  EXPECT_EQ(good("collective=all_reduce").collective, Collective::all_reduce);
  EXPECT_EQ(good("collective=send_recv").collective, Collective::send_recv);
}

TEST(Spec, NamesTheBadWordAndItsPlace) {
  const auto word = bad("node,strct,force");
  EXPECT_EQ(word.column, 5);
  EXPECT_EQ(part(word), "strct");
  EXPECT_THAT(word.what, HasSubstr("'strct' is not a word of --nccl-check"));
  for (const char* allowed : {"node", "job", "strict", "warn", "busbw=N", "size=SIZE", "collective=NAME",
                              "time=TIME", "force", "off", "help"})
    EXPECT_THAT(word.allowed, HasSubstr(allowed));
  EXPECT_THAT(word.line(), HasSubstr("at column 6"));
}

TEST(Spec, PointsAtTheValueWhenTheValueIsBad) {
  const auto word = bad("size=256M,busbw=fast");
  EXPECT_EQ(part(word), "fast");
  EXPECT_EQ(word.display(check_name),
            "'fast' is not a rate in GB/s: a number from 0.001 to 100000, such as busbw=44 or busbw=11.5:\n"
            "  --nccl-check=size=256M,busbw=fast\n"
            "                               ^^^^\n" +
                word.allowed + "\n");
}

TEST(Spec, RefusesValuesOutOfRangeOrNotNumbers) {
  for (const char* text : {"busbw=0",
                           "busbw=-1",
                           "busbw=nan",
                           "busbw=inf",
                           "busbw=1e300",
                           "busbw=100001",
                           "busbw=44GB",
                           "busbw=",
                           "busbw= 4",
                           "size=",
                           "size=0",
                           "size=512",
                           "size=65G",
                           "size=1.5G",
                           "size=1T",
                           "size=99999999999999999999",
                           "size=-1M",
                           "time=",
                           "time=0",
                           "time=99ms",
                           "time=2h",
                           "time=10parsecs",
                           "time=-1s",
                           "time=1e9",
                           "collective=",
                           "collective=broadcast",
                           "collective=ALL_REDUCE"}) {
    const auto word = bad(text);
    EXPECT_FALSE(word.what.empty()) << text;
    EXPECT_LE(word.column + word.length, word.text.size()) << text;
  }
}

TEST(Spec, RefusesWhatIsTwiceContradictoryOrMisspelt) {
  EXPECT_THAT(bad("node,node").what, HasSubstr("'node' is given twice"));
  EXPECT_THAT(bad("size=1G,size=2G").what, HasSubstr("'size' is given twice"));
  EXPECT_THAT(bad("strict,warn").what, HasSubstr("'warn' contradicts 'strict'"));
  EXPECT_THAT(bad("warn,strict").what, HasSubstr("'strict' contradicts 'warn'"));
  EXPECT_THAT(bad("node,off").what, HasSubstr("'off' contradicts 'node'"));
  EXPECT_THAT(bad("off,force").what, HasSubstr("'force' contradicts 'off'"));
  EXPECT_THAT(bad("help,node").what, HasSubstr("contradicts 'help'"));
  EXPECT_THAT(bad("node=1").what, HasSubstr("'node' takes no value"));
  EXPECT_THAT(bad("off=").what, HasSubstr("'off' takes no value"));
  EXPECT_THAT(bad("busbw").what, HasSubstr("'busbw' needs a value: busbw=N"));
  EXPECT_THAT(bad("=4").what, HasSubstr("'' is not a word"));
  EXPECT_THAT(bad("Node").what, HasSubstr("not a word"));
  EXPECT_THAT(bad(" node").what, HasSubstr("not a word"));
  EXPECT_THAT(bad("(null),node").what, HasSubstr("'(null)' is not a word"));
}

TEST(Spec, RefusesEmptyWordsWhereverTheyAre) {
  EXPECT_EQ(bad(",node").column, 0);
  EXPECT_EQ(bad("node,,job").column, 5);
  EXPECT_EQ(bad("node,").column, 5);
  EXPECT_THAT(bad("node,").display(check_name), HasSubstr("  --nccl-check=node,\n                    ^\n"));
}

TEST(Spec, ShowsNothingThatATerminalWouldActOn) {
  const auto word = bad("node,\x1b[31mred\x07\xc3\xa9");
  EXPECT_THAT(word.display(check_name),
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), HasSubstr("?[31mred???")));
  EXPECT_THAT(word.line(), Not(HasSubstr("\x1b")));
}

TEST(Spec, ShowsAWindowOfALongText) {
  std::string text(200, 'x');
  const auto long_word = bad(text);
  EXPECT_LT(long_word.display(check_name).size(), 600);
  text = "node,job,strict,busbw=44.25,size=256M,collective=all_reduce,time=10s,bogus,force";
  const auto shown = bad(text).display(check_name);
  EXPECT_THAT(shown, HasSubstr("=..."));
  const auto second = shown.find('\n') + 1;
  const auto third = shown.find('\n', second) + 1;
  const auto caret = shown.find('^', third) - third;
  EXPECT_EQ(shown.substr(second + caret, 5), "bogus");
}

TEST(Spec, RefusesALongTextUnread) {
  EXPECT_THAT(bad(std::string(most_bytes + 1, 'a')).what, HasSubstr("4097 bytes"));
  EXPECT_THAT(bad(std::string(1 << 20, ',')).display(check_name), HasSubstr("at most 4096"));
  EXPECT_THAT(bad(std::string(most_bytes, 'a')).what, HasSubstr("not a word"));
}

TEST(Spec, CanonicalIsTheSameForTheSameRequest) {
  EXPECT_EQ(canonical(good("")), "");
  EXPECT_EQ(canonical(good("force,time=10,size=1GiB,busbw=44.50,warn,job,node")),
            "node,job,warn,busbw=44.5,size=1G,time=10s,force");
  EXPECT_EQ(canonical(good("size=1048576,time=1500ms")), "size=1M,time=1500ms");
  EXPECT_EQ(canonical(good("size=65536K")), "size=64M");
  EXPECT_EQ(canonical(good("size=1025")), "size=1025");
  EXPECT_EQ(canonical(good("time=1h,collective=send_recv")), "collective=send_recv,time=3600s");
  EXPECT_EQ(canonical(good("off")), "off");
  EXPECT_EQ(canonical(good("help")), "help");
}

TEST(Spec, CanonicalReadsBackAsItself) {
  // Every combination of the words that can stand together.
  const std::vector<std::string> optional{"node",    "job",  "busbw=0.1", "size=3K", "collective=all_reduce",
                                          "time=2m", "force"};
  for (unsigned mask = 0; mask < (1U << optional.size()); ++mask) {
    for (const char* consequence : {"", "strict", "warn"}) {
      std::string text = consequence;
      for (std::size_t i = 0; i < optional.size(); ++i)
        if ((mask >> i & 1U) != 0) text += (text.empty() ? "" : ",") + optional[i];
      const auto spec = good(text);
      EXPECT_EQ(good(canonical(spec)), spec) << text;
    }
  }
}

TEST(Spec, HelpNamesEveryWord) {
  for (const char* word : {"node", "job", "strict", "warn", "busbw=N", "size=SIZE", "collective=NAME",
                           "time=TIME", "force", "off", "help"})
    EXPECT_THAT(help(), HasSubstr(std::string("\n  ") + word + " "));
}

TEST(Environment, TakesItsThreeWordsAndNoOther) {
  EXPECT_EQ(std::get<Environment>(parse_environment("auto")), Environment::automatic);
  EXPECT_EQ(std::get<Environment>(parse_environment("off")), Environment::off);
  EXPECT_EQ(std::get<Environment>(parse_environment("show")), Environment::show);
  for (const char* text : {"", "(null)", "on", "auto,show", "AUTO", "auto "}) {
    const auto result = parse_environment(text);
    ASSERT_TRUE(std::holds_alternative<BadWord>(result)) << text;
    EXPECT_THAT(std::get<BadWord>(result).display(env_name),
                AllOf(HasSubstr("--nccl-env="), EndsWith("allowed: auto, off, show\n")));
  }
  EXPECT_LE(std::get<BadWord>(parse_environment(std::string(100'000, 'x'))).text.size(), most_bytes);
}

}  // namespace
}  // namespace nccl_check::option
