#include "policy/state/results.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/files.hpp"
#include "base/text.hpp"
#include "policy/state/locked_file.hpp"

namespace nccl_check::policy {
namespace {

constexpr const char* schema = "nccl-check.verdict";
constexpr int most_swept = 4096;  // entries looked at, so that a flooded folder costs no time

Status check_record(const std::string& record, const std::string& where) {
  if (record.empty() || record.size() > most_record_bytes)
    return Error{fmt::format("a record of {} bytes, at most {} are kept", record.size(), most_record_bytes),
                 where, ""};
  if (record.find('\n') != std::string::npos) return Error{"a record of several lines", where, ""};
  return success();
}

// Nothing: not a record.
std::optional<std::int64_t> job_of(std::string_view line) {
  if (line.size() > most_record_bytes) return std::nullopt;
  const Json object = Json::parse(line, nullptr, false);
  std::string own_schema;
  std::int64_t job = 0;
  if (!object.is_object() || !take(object, "schema", 64, own_schema) || own_schema != schema ||
      !take(object, "job", 0, UINT32_MAX, job))
    return std::nullopt;
  return job;
}

// "123.json" and nothing like it.
std::optional<std::uint32_t> job_of_file(const std::string& name) {
  std::uint32_t job = 0;
  const auto [stop, code] = std::from_chars(name.data(), name.data() + name.size(), job);
  if (code != std::errc{} || std::string_view(stop) != ".json") return std::nullopt;
  return job;
}

}  // namespace

Status append_result(const std::string& path, const std::string& record) {
  auto fits = check_record(record, path);
  if (!fits) return fits;
  const auto lock = FileLock::take(path, Deadline::in(Milliseconds(500)));
  if (!lock) return lock.error();
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 &&
      static_cast<std::size_t>(info.st_size) + record.size() + 1 > most_results_bytes &&
      std::rename(path.c_str(), (path + ".1").c_str()) != 0)
    return Error{fmt::format("cannot be rotated: {}", std::strerror(errno)), path, ""};
  return append_line(path, record, 0600);
}

Result<std::optional<std::string>> find_result(const std::string& path, std::optional<std::uint32_t> job,
                                               int& bad) {
  bad = 0;
  for (const auto& file : {path, path + ".1"}) {
    struct stat info {};
    if (::lstat(file.c_str(), &info) != 0 && errno == ENOENT) continue;
    const auto text = read_file(file, most_results_bytes, Trust::root_only);
    if (!text) return text.error();
    std::string_view rest = *text;
    while (!rest.empty()) {
      if (rest.back() == '\n') rest.remove_suffix(1);
      const auto start = rest.rfind('\n');
      const auto line = start == std::string_view::npos ? rest : rest.substr(start + 1);
      const auto of = line.empty() ? std::optional<std::int64_t>() : job_of(line);
      if (!of && !line.empty()) ++bad;
      if (of && (!job || *of == *job)) return std::optional<std::string>(std::string(line));
      rest = rest.substr(0, rest.size() - line.size());
    }
  }
  return std::optional<std::string>();
}

std::string job_file(const std::string& folder, std::uint32_t job) {
  return fmt::format("{}/{}.json", folder, job);
}

Status write_job_file(const std::string& folder, std::uint32_t job, const std::string& record, uid_t owner,
                      std::string& note) {
  note.clear();
  const std::string path = job_file(folder, job);
  auto fits = check_record(record, path);
  if (!fits) return fits;
  auto written = write_file_atomically(path, record + "\n", 0600);
  if (!written || owner == 0) return written;
  const auto readable = let_user_read(path, owner);
  if (!readable) note = readable.error().text();
  return success();
}

Status remove_job_file(const std::string& folder, std::uint32_t job) {
  const std::string path = job_file(folder, job);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return Error{fmt::format("cannot be removed: {}", std::strerror(errno)), path, ""};
  return success();
}

int sweep_job_files(const std::string& folder, std::chrono::hours age) {
  int gone = 0;
  int seen = 0;
  std::error_code code;
  const auto now = std::filesystem::file_time_type::clock::now();
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    if (++seen > most_swept) break;
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    // Also what a killed write left: "123.json.XXXXXX".
    const bool ours = job_of_file(name) || (name.size() > 7 && job_of_file(name.substr(0, name.size() - 7)));
    const auto changed = std::filesystem::last_write_time(entry->path(), ignored);
    if (!ours || ignored || now - changed < age) continue;
    if (std::filesystem::remove(entry->path(), ignored)) ++gone;
  }
  return gone;
}

}  // namespace nccl_check::policy
