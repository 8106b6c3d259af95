#include <fmt/format.h>
#include <sys/acl.h>

#include <cerrno>
#include <cstring>

#include "base/files.hpp"

namespace nccl_check {
namespace {

Error system_error(const char* doing, const std::string& path) {
  return Error{fmt::format("cannot {}: {}", doing, std::strerror(errno)), path, ""};
}

}  // namespace

Status let_user_read(const std::string& path, uid_t user) {
  acl_t acl = ::acl_from_text(fmt::format("u::rw,u:{}:r,g::-,m::r,o::-", user).c_str());
  if (acl == nullptr) return system_error("make an access list for", path);
  const int failed = ::acl_set_file(path.c_str(), ACL_TYPE_ACCESS, acl);
  const int code = errno;
  ::acl_free(acl);
  errno = code;
  if (failed != 0) return system_error("set the access list of", path);
  return success();
}

}  // namespace nccl_check
