#pragma once
// libfabric, opened at run time: linking it would cost every start 0.2 s, and only the worker needs it.
#include <rdma/fabric.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace nccl_check::engine::fabric {

// The symbols that are real functions in the library; all other calls are inline functions of the headers
// that go through the objects' own tables.
struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  std::uint32_t api = 0;  // the interface version to ask for: the older of the library's and our headers'
  std::string version;    // "1.17.0"

  [[nodiscard]] std::string error(long code) const;  // of a negative return value: "Connection refused"
};

using Info = std::unique_ptr<fi_info, decltype(&::fi_freeinfo)>;

// `path` empty: the loader's own search for libfabric.so.1. The library stays loaded until the process ends.
// Loading it changes signal handlers on some distributions (old PSM libraries): they are put back.
Result<Library> open_library(const std::string& path);

// A list of what the node offers for reliable datagrams with tags; `provider` empty: of all providers. Null:
// nothing. The first call initialises every provider in the library.
Result<Info> query(const Library& library, const std::string& provider);

}  // namespace nccl_check::engine::fabric
