// Searches for slow nodes in simulated fabrics and prints what came of it. Ends non-zero if a single innocent
// was accused in any case but those that are shown as known limits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <vector>

#include "simulate.hpp"

namespace nccl_check::simulation {
namespace {

constexpr double bad_shares[] = {0, 1e-9, 0.01, 0.05};  // none, one node, 1 % (at least one), 5 %

struct Sum {
  std::size_t runs = 0;
  Tally total;
  std::vector<int> pairing;  // rounds of each run

  void add(const Tally& one) {
    ++runs;
    pairing.push_back(one.pairing);
    count(one);
  }
  void add(const Sum& other) {
    runs += other.runs;
    pairing.insert(pairing.end(), other.pairing.begin(), other.pairing.end());
    count(other.total);
  }
  void count(const Tally& t) {
    total.bad += t.bad;
    total.beyond += t.beyond;
    total.missed += t.missed;
    total.innocents += t.innocents;
    total.unresolved += t.unresolved;
    total.confirming = std::max(total.confirming, t.confirming);
  }
  void print(const std::string& name, const std::string& nodes) {
    std::sort(pairing.begin(), pairing.end());
    fmt::print("{:<52} {:>6} {:>6} {:>8} {:>7} {:>7} {:>9} {:>10} {:>7}/{} {:>6}\n", name, nodes, runs,
               total.bad, total.beyond, total.missed, total.innocents, total.unresolved,
               pairing[pairing.size() / 2], pairing.back(), total.confirming);
    std::fflush(stdout);
  }
};

void print_header() {
  fmt::print("{:<52} {:>6} {:>6} {:>8} {:>7} {:>7} {:>9} {:>10} {:>9} {:>6}\n", "case", "nodes", "runs",
             "bad", "beyond", "missed", "innocents", "unresolved", "rounds", "again");
}

int table(bool quick, std::size_t work, std::uint64_t seed, bool by_case) {
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::size_t> sizes{2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 65, 256, 1024, 1025, 10'000};
  if (quick) sizes = {2, 3, 4, 5, 8, 9, 33, 64, 257};
  fmt::print(
      "bad: nodes whose own link is slow (0.2 to 0.9 of a good one's); beyond: those without two good "
      "partners in their\n"
      "leaf, or among most of it; missed: of the others, in all runs; innocents: good nodes accused; "
      "unresolved: good\n"
      "nodes neither cleared nor accused; rounds: pairing, median/most; again: most rounds for the "
      "accused\n\n");
  print_header();
  std::size_t accused = 0;
  Sum all;
  for (const Case& one : cases()) {
    Sum of_case;
    for (const std::size_t n : sizes) {
      Sum sum;
      const std::size_t runs = std::clamp<std::size_t>(work / n, quick ? 8 : 40, quick ? 200 : 4000);
      for (std::size_t run = 0; run < runs; ++run) {
        Random random(seed + 1'000'003 * run + n);
        sum.add(simulate(one.make(n, bad_shares[run % std::size(bad_shares)], random), random));
      }
      if (!by_case) sum.print(one.name, fmt::format("{}", n));
      of_case.add(sum);
    }
    if (by_case) of_case.print(one.name, "all");
    if (!one.judged) continue;
    accused += of_case.total.innocents;
    all.add(of_case);
  }
  all.print("all but the limits", "all");
  fmt::print("\n{} runs, {} bad nodes, {} innocents accused, {:.1f} s\n", all.runs, all.total.bad, accused,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return accused == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nccl_check::simulation

int main(int argc, char** argv) {
  CLI::App app{"Searches for slow nodes in simulated fabrics"};
  bool quick = false;
  bool by_case = false;
  std::size_t work = 200'000;
  std::uint64_t seed = 1;
  app.add_flag("--quick", quick, "a few seconds: small sizes, few runs");
  app.add_flag("--by-case", by_case, "one line a case, all sizes together");
  app.add_option("--work", work, "nodes simulated for each line: runs times size");
  app.add_option("--seed", seed, "of the random numbers");
  CLI11_PARSE(app, argc, argv);
  if (quick) work = std::min<std::size_t>(work, 2000);
  return nccl_check::simulation::table(quick, work, seed, by_case);
}
