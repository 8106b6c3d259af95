#pragma once
// Files that root reads and writes. Nothing here follows a symbolic link in the last component.
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nccl_check {

enum class Trust {
  anyone,     // whoever owns it
  root_only,  // owned by root (or by the caller, where that is not root), writable by nobody else, its folder
              // likewise
};

// Whole or not at all: a larger file, a folder, a device or a link is refused by name.
Result<std::string> read_file(const std::string& path, std::size_t most_bytes, Trust trust);

bool file_exists(const std::string& path);

// Writes beside the target and renames, so that a reader sees the old or the new text, never a part. Makes
// the folders (0755) that are missing. The temporary file is removed on failure.
Status write_file_atomically(const std::string& path, std::string_view text, mode_t mode);

// Lets one more user read the file, by a POSIX ACL; where the file system has none, the file stays as it is
// and the error says so.
Status let_user_read(const std::string& path, uid_t user);

// One line at the end, in one write(2), under flock; the newline is added.
Status append_line(const std::string& path, std::string_view line, mode_t mode);

}  // namespace nccl_check
