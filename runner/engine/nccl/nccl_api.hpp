#pragma once
// NCCL's functions, got at run time from the library that the site or user names.
#include <nccl.h>

#include <string>

#include "base/result.hpp"

namespace nccl_check::engine::nccl {

#define NCCL_CHECK_NCCL_FUNCTIONS(X) \
  X(GetVersion)                      \
  X(GetUniqueId)                     \
  X(CommInitRankConfig)              \
  X(CommGetAsyncError)               \
  X(GetLastError)                    \
  X(GetErrorString)                  \
  X(AllReduce)                       \
  X(AllGather)                       \
  X(Send)                            \
  X(Recv)                            \
  X(GroupStart)                      \
  X(GroupEnd)

struct NcclApi {
#define NCCL_CHECK_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  NCCL_CHECK_NCCL_FUNCTIONS(NCCL_CHECK_MEMBER)
#undef NCCL_CHECK_MEMBER
  std::string path;
  int version = 0;  // as ncclGetVersion counts: 22803
};

constexpr int oldest_nccl = 21800;  // 2.18.0

// `path` empty: libnccl.so.2 by the loader's search. Older than 2.18: an error; older than our header: as
// long as it has every function above, no matter (NCCL takes the configuration's size from the structure).
Result<NcclApi> open_nccl(const std::string& path);

Status nccl_fits(int version, const std::string& path);
std::string nccl_version_text(int version);  // 22803: "2.28.3"

}  // namespace nccl_check::engine::nccl
