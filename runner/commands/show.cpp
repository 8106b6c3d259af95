#include "commands/show.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/files.hpp"
#include "base/text.hpp"
#include "policy/state/locked_file.hpp"
#include "policy/state/results.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::commands {
namespace {

using policy::Json;

constexpr int most_files = 4096;

// What the person may see, or why it is nothing.
Result<std::string> find(const std::optional<std::uint32_t>& job, const policy::Paths& paths,
                         std::ostream& error) {
  if (job) {
    const auto file = policy::job_file(paths.jobs(), *job);
    auto record = read_file(file, policy::most_record_bytes, Trust::root_only);
    if (record) return record;
    if (file_exists(file) && ::access(file.c_str(), R_OK) == 0)
      return record.error();  // there, and not to be trusted
  }
  if (::access(paths.results().c_str(), R_OK) == 0 || ::geteuid() == 0) {
    int bad = 0;
    const auto record = policy::find_result(paths.results(), job, bad);
    if (!record) return record.error();
    if (bad > 0)
      error << fmt::format("nccl-check: {}: {} lines that are no verdict are passed over\n", paths.results(),
                           bad);
    if (*record) return **record;
  } else if (!job) {
    // The newest of the caller's own jobs that are still here.
    std::string newest;
    std::filesystem::file_time_type when{};
    int seen = 0;
    std::error_code code;
    for (std::filesystem::directory_iterator entry(paths.jobs(), code), end; !code && entry != end;
         entry.increment(code)) {
      if (++seen > most_files) break;
      std::error_code ignored;
      const auto changed = entry->last_write_time(ignored);
      if (ignored || ::access(entry->path().c_str(), R_OK) != 0 || (!newest.empty() && changed <= when))
        continue;
      newest = entry->path().string();
      when = changed;
    }
    if (!newest.empty()) return read_file(newest, policy::most_record_bytes, Trust::root_only);
  }
  return Error{job ? fmt::format("there is no verdict of job {} here that you may read", *job)
                   : std::string("there is no verdict here that you may read"),
               "", "a job's is on each of its nodes, for its owner while it runs, for root also afterwards"};
}

}  // namespace

int show(const ShowArguments& arguments, const policy::Paths& paths, std::ostream& out, std::ostream& error) {
  const int nothing = verdict::exit_code(verdict::Class::untested);
  const auto text = find(arguments.job, paths, error);
  if (!text) {
    error << "nccl-check: " << text.error().text() << '\n';
    return nothing;
  }
  const Json record = Json::parse(*text, nullptr, false);
  std::string schema;
  std::string node;
  std::int64_t job = 0;
  std::int64_t time = 0;
  std::vector<std::string> lines;
  if (!policy::take(record, "schema", 64, schema) || schema != "nccl-check.verdict" ||
      !policy::take(record, "job", 0, UINT32_MAX, job) || !policy::take(record, "time", 0, INT64_MAX, time) ||
      !policy::take(record, "node", 256, node) || !policy::take(record, "lines", 65'536, 65'536, lines)) {
    error << "nccl-check: the verdict's record is broken\n";
    return nothing;
  }
  if (arguments.json) {
    out << record.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    return 0;
  }
  const std::time_t seconds = time;
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) parts = {};
  out << fmt::format("job {} on {}, {:%Y-%m-%d %H:%M:%S}\n", job, printable(node), parts);
  for (const auto& line : lines) out << printable(line, line.size()) << '\n';
  return 0;
}

}  // namespace nccl_check::commands
