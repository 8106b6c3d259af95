#include "policy/state/drains.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/files.hpp"
#include "base/text.hpp"
#include "policy/state/locked_file.hpp"

namespace nccl_check::policy {
namespace {

constexpr const char* schema = "nccl-check.drain";
constexpr std::size_t most_bytes = 4U << 20U;
constexpr std::size_t rotate_at = 2U << 20U;
constexpr std::array<std::string_view, 4> event_names{"drained", "unanswered", "taken-back", "released"};

bool parse(const std::string& line, DrainRecord& record) {
  const Json object = Json::parse(line, nullptr, false);
  std::string own_schema;
  std::string event;
  std::string scope;
  std::int64_t job = 0;
  std::int64_t version = 0;
  if (!object.is_object() || !take(object, "schema", 64, own_schema) || own_schema != schema ||
      !take(object, "version", 1, 1, version) || !take(object, "time", 0, INT64_MAX, record.time) ||
      !take(object, "node", 256, record.node) || !take(object, "event", 32, event) ||
      !take(object, "job", 0, UINT32_MAX, job) || !take(object, "scope", 8, scope) ||
      !take(object, "reason", 1024, record.reason))
    return false;
  record.job = static_cast<std::uint32_t>(job);
  record.across_nodes = scope == "job";
  for (std::size_t i = 0; i < event_names.size(); ++i) {
    if (event_names[i] != event) continue;
    record.event = static_cast<DrainEvent>(i);
    return scope == "job" || scope == "node";
  }
  return false;
}

}  // namespace

std::string_view name(DrainEvent e) {
  return event_names[static_cast<std::size_t>(e)];
}

Status append_drain(const std::string& path, const DrainRecord& record) {
  const auto lock = FileLock::take(path, Deadline::in(Milliseconds(500)));
  if (!lock) return lock.error();
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && static_cast<std::size_t>(info.st_size) > rotate_at)
    std::rename(path.c_str(), (path + ".1").c_str());
  const Json object{{"schema", schema},
                    {"version", 1},
                    {"time", record.time},
                    {"node", record.node},
                    {"event", name(record.event)},
                    {"job", record.job},
                    {"scope", record.across_nodes ? "job" : "node"},
                    {"reason", record.reason}};
  return append_line(path, object.dump(-1, ' ', false, Json::error_handler_t::replace), 0644);
}

Result<std::vector<DrainRecord>> read_drains(const std::string& path, const std::string& node) {
  std::vector<DrainRecord> records;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT) return records;
  const auto text = read_file(path, most_bytes, Trust::root_only);
  if (!text) return text.error();
  int number = 0;
  for (const auto& line : split(*text, '\n')) {
    ++number;
    if (line.empty()) continue;
    DrainRecord record;
    if (!parse(line, record))
      return Error{"is not a record of a drain", fmt::format("{}:{}", path, number), "remove the line"};
    if (record.node == node) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace nccl_check::policy
