#include "base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/fd.hpp"

namespace nccl_check {
namespace {

Error system_error(const char* doing, const std::string& path) {
  return Error{fmt::format("cannot {}: {}", doing, std::strerror(errno)), path, ""};
}

bool writable_by_others(const struct stat& info) {
  return (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (info.st_uid != 0 && info.st_uid != ::geteuid());
}

Status make_folders(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return success();
  std::error_code code;
  const mode_t before = ::umask(022);
  std::filesystem::create_directories(folder, code);
  ::umask(before);
  if (code) return Error{"cannot make the folder: " + code.message(), folder.string(), ""};
  return success();
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write", path);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return success();
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t most_bytes, Trust trust) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ELOOP) return Error{"is a symbolic link", path, "give the file itself"};
    return system_error("open", path);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error("stat", path);
  if (!S_ISREG(info.st_mode)) return Error{"is not a regular file", path, ""};
  if (trust == Trust::root_only) {
    if (writable_by_others(info))
      return Error{fmt::format("is owned by uid {} with mode {:04o}, so others can write it", info.st_uid,
                               info.st_mode & 07777U),
                   path, "chown root, chmod go-w"};
    struct stat folder {};
    const auto parent = std::filesystem::path(path).parent_path();
    if (::stat(parent.empty() ? "." : parent.c_str(), &folder) == 0 && writable_by_others(folder) &&
        (folder.st_mode & S_ISVTX) == 0)
      return Error{"stands in a folder that others can write", path, "chown root, chmod go-w the folder"};
  }
  if (static_cast<std::size_t>(info.st_size) > most_bytes)
    return Error{fmt::format("is {} bytes, at most {} are taken", info.st_size, most_bytes), path, ""};
  // Sized by what is there, not by what is allowed; files of /proc say 0 and are read on.
  std::string text;
  std::size_t have = 0;
  while (have <= most_bytes) {
    if (have == text.size()) {
      const std::size_t want =
          std::max<std::size_t>({4096, static_cast<std::size_t>(info.st_size) + 1, have * 2});
      text.resize(std::min(want, most_bytes + 1));
    }
    const ssize_t n = ::read(fd.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", path);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  if (have > most_bytes) return Error{fmt::format("is longer than {} bytes", most_bytes), path, ""};
  text.resize(have);
  return text;
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Status write_file_atomically(const std::string& path, std::string_view text, mode_t mode) {
  auto folders = make_folders(path);
  if (!folders) return folders;
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return system_error("make a temporary file beside", path);
  auto written = write_all(fd.get(), text, temporary);
  if (written && ::fchmod(fd.get(), mode) != 0) written = system_error("chmod", temporary);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = system_error("rename into place", path);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Status append_line(const std::string& path, std::string_view line, mode_t mode) {
  auto folders = make_folders(path);
  if (!folders) return folders;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) return system_error("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno != EWOULDBLOCK) return system_error("lock", path);
  return write_all(fd.get(), std::string(line) + "\n", path);
}

}  // namespace nccl_check
