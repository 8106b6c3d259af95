#pragma once
// Shared libraries of others, opened at run time, by the worker alone.
#include <sys/types.h>

#include <string>

#include "base/result.hpp"

namespace nccl_check::engine::nccl {

// An open library; it stays loaded until the process ends.
struct Library {
  void* handle = nullptr;
  std::string path;  // the file itself, links resolved

  [[nodiscard]] void* find(const char* symbol) const;  // nullptr: it has no such symbol
  template <class Function>
  bool find(const char* symbol, Function& out) const {
    out = reinterpret_cast<Function>(find(symbol));
    return out != nullptr;
  }
};

// What is opened: how people call it, what the loader searches for, and what to do where it is missing.
struct Wanted {
  const char* title;   // "NCCL"
  const char* soname;  // "libnccl.so.2"
  const char* remedy;  // "install libnccl2, or name the library's path"
};

// Whether a file of this owner and mode could have been put there, or be changed, only by root or by `self`,
// who may trust himself.
bool trusted(uid_t owner, mode_t mode, uid_t self);

// A file and its folder, links resolved, that nobody but root and the caller can write. Otherwise the error
// names path, owner and mode.
Result<std::string> trusted_path(const std::string& path);

// `path` empty: the loader's own search, and what it found must be trusted too.
Result<Library> open_library(const Wanted& wanted, const std::string& path);

}  // namespace nccl_check::engine::nccl
