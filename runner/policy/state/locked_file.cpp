#include "policy/state/locked_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/files.hpp"

namespace nccl_check::policy {

Result<FileLock> FileLock::take(const std::string& path, Deadline deadline) {
  const std::string name = path + ".lock";
  std::error_code code;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), code);
  UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Error{fmt::format("cannot open: {}", std::strerror(errno)), name, ""};
  // flock(2) has no time limit, so ask again; whoever holds it is done in no time.
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{fmt::format("cannot lock: {}", std::strerror(errno)), name, ""};
    if (deadline.passed()) return Error{"another process holds it", name, "see who does: fuser " + name};
    ::poll(nullptr, 0, 2);
  }
  return FileLock(std::move(fd));
}

Result<std::optional<Json>> read_state(const std::string& path, const std::string& schema,
                                       const std::string& node) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT) return std::optional<Json>();
  const auto text = read_file(path, most_state_bytes, Trust::root_only);
  if (!text) return text.error();
  Json object = Json::parse(*text, nullptr, false);
  if (object.is_discarded() || !object.is_object()) return Error{"is not a JSON object", path, "remove it"};
  std::string own_schema;
  std::string own_node;
  std::int64_t version = 0;
  if (!take(object, "schema", 64, own_schema) || own_schema != schema)
    return Error{fmt::format("is not of the schema {}", schema), path, "remove it"};
  if (!take(object, "version", 1, 1, version))
    return Error{"is of a version that is not known", path, "remove it"};
  if (!take(object, "node", 256, own_node) || own_node != node)
    return Error{fmt::format("is not of node {}", node), path, "each node keeps its own; remove it"};
  return std::optional<Json>(std::move(object));
}

Status write_state(const std::string& path, const std::string& schema, const std::string& node, Json object) {
  object["schema"] = schema;
  object["version"] = 1;
  object["node"] = node;
  return write_file_atomically(path, object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n",
                               0644);
}

void put_aside(const std::string& path) {
  std::rename(path.c_str(), (path + ".broken").c_str());
}

const Json* member(const Json& object, const char* key) {
  const auto* members = object.get_ptr<const Json::object_t*>();
  if (members == nullptr) return nullptr;
  const auto found = members->find(key);
  return found == members->end() ? nullptr : &found->second;
}

const Json::array_t* array_member(const Json& object, const char* key, std::size_t most) {
  const Json* found = member(object, key);
  const auto* array = found == nullptr ? nullptr : found->get_ptr<const Json::array_t*>();
  return array == nullptr || array->size() > most ? nullptr : array;
}

const Json::object_t* object_member(const Json& object, const char* key, std::size_t most) {
  const Json* found = member(object, key);
  const auto* members = found == nullptr ? nullptr : found->get_ptr<const Json::object_t*>();
  return members == nullptr || members->size() > most ? nullptr : members;
}

bool take(const Json& object, const char* key, std::int64_t least, std::int64_t most, std::int64_t& out) {
  const Json* found = member(object, key);
  if (found == nullptr || !found->is_number_integer()) return false;
  // An unsigned value beyond int64 would turn negative.
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return false;
  const auto value = found->get<std::int64_t>();
  if (value < least || value > most) return false;
  out = value;
  return true;
}

bool take(const Json& object, const char* key, double& out) {
  const Json* found = member(object, key);
  if (found == nullptr || !found->is_number()) return false;
  const auto value = found->get<double>();
  if (!std::isfinite(value)) return false;
  out = value;
  return true;
}

bool take(const Json& object, const char* key, std::size_t longest, std::string& out) {
  const Json* found = member(object, key);
  const auto* value = found == nullptr ? nullptr : found->get_ptr<const std::string*>();
  if (value == nullptr || value->size() > longest) return false;
  out = *value;
  return true;
}

bool take(const Json& object, const char* key, std::size_t most, std::size_t longest,
          std::vector<std::string>& out) {
  const auto* array = array_member(object, key, most);
  if (array == nullptr) return false;
  std::vector<std::string> all;
  for (const auto& entry : *array) {
    const auto* value = entry.get_ptr<const std::string*>();
    if (value == nullptr || value->size() > longest) return false;
    all.push_back(*value);
  }
  out = std::move(all);
  return true;
}

}  // namespace nccl_check::policy
