#include "engine/nccl/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/text.hpp"

namespace nccl_check::engine::nccl {
namespace {

Result<std::string> real_path(const std::string& path) {
  char* found = ::realpath(path.c_str(), nullptr);
  if (found == nullptr) return Error{std::strerror(errno), path, ""};
  std::string out = found;
  std::free(found);  // NOLINT: realpath's own
  return out;
}

Status check(const std::string& path, const char* kind) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Error{std::strerror(errno), path, ""};
  if (trusted(info.st_uid, info.st_mode, ::geteuid())) return success();
  return Error{fmt::format("the {} is owned by uid {} with mode {:04o}, so others than root can change what "
                           "would be run",
                           kind, info.st_uid, info.st_mode & 07777U),
               path, "chown root, chmod go-w, or name another library's path"};
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return "";
  return map->l_name;
}

}  // namespace

void* Library::find(const char* symbol) const {
  return handle == nullptr ? nullptr : ::dlsym(handle, symbol);
}

bool trusted(uid_t owner, mode_t mode, uid_t self) {
  return (owner == 0 || owner == self) && (mode & (S_IWGRP | S_IWOTH)) == 0;
}

Result<std::string> trusted_path(const std::string& path) {
  auto real = real_path(path);
  if (!real) return real;
  if (auto file = check(*real, "file"); !file) return file.error();
  if (auto folder = check(std::filesystem::path(*real).parent_path().string(), "folder"); !folder)
    return folder.error();
  return real;
}

Result<Library> open_library(const Wanted& wanted, const std::string& path) {
  std::string name = wanted.soname;
  if (!path.empty()) {
    auto real = trusted_path(path);
    if (!real)
      return Error{fmt::format("{} is not opened: {}", wanted.title, real.error().what),
                   printable(real.error().where), real.error().remedy};
    name = *real;
  }
  Library out;
  out.handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (out.handle == nullptr) {
    const char* why = ::dlerror();
    return Error{
        fmt::format("{} could not be opened: {}", wanted.title, printable(why == nullptr ? name : why, 300)),
        "", wanted.remedy};
  }
  auto real = trusted_path(path_of(out.handle));
  if (!real)
    return Error{fmt::format("{} is not used: {}", wanted.title, real.error().what), real.error().where,
                 real.error().remedy};
  out.path = *real;
  return out;
}

}  // namespace nccl_check::engine::nccl
