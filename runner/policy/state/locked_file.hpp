#pragma once
// A small JSON file of root's that several gates of a node read and change.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace nccl_check::policy {

using Json = nlohmann::json;

constexpr std::size_t most_state_bytes = 256U << 10U;

// Held for a change; beside the file (PATH.lock), since the file itself is replaced. Gates hold it for
// microseconds.
class FileLock {
 public:
  static Result<FileLock> take(const std::string& path, Deadline deadline);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// The whole object, if it is root's, of this schema, version 1, and this node's own; nothing: there is no
// file. Anything else is an error that names the file and what is wrong with it.
Result<std::optional<Json>> read_state(const std::string& path, const std::string& schema,
                                       const std::string& node);

// With schema, version and node added.
Status write_state(const std::string& path, const std::string& schema, const std::string& node, Json object);

// For a file that read_state() refused: out of the way, kept for whoever wants to know why.
void put_aside(const std::string& path);

// Nothing: not an object, or it has no such member.
const Json* member(const Json& object, const char* key);
const Json::array_t* array_member(const Json& object, const char* key, std::size_t most);
const Json::object_t* object_member(const Json& object, const char* key, std::size_t most);

// Reading members strictly. False: missing, of another type or out of range.
bool take(const Json& object, const char* key, std::int64_t least, std::int64_t most, std::int64_t& out);
bool take(const Json& object, const char* key, double& out);
bool take(const Json& object, const char* key, std::size_t longest, std::string& out);
bool take(const Json& object, const char* key, std::size_t most, std::size_t longest,
          std::vector<std::string>& out);

}  // namespace nccl_check::policy
