#include "engine/nccl/nccl_api.hpp"

#include <fmt/format.h>

#include "engine/nccl/library.hpp"

namespace nccl_check::engine::nccl {
namespace {

constexpr Wanted wanted{"NCCL", "libnccl.so.2",
                        "install libnccl2 (Debian, Ubuntu) or libnccl (EL), or name the library's path"};

}  // namespace

Result<NcclApi> open_nccl(const std::string& path) {
  auto library = open_library(wanted, path);
  if (!library) return library.error();
  NcclApi api;
  api.path = library->path;
  if (!library->find("ncclGetVersion", api.GetVersion) || api.GetVersion(&api.version) != ncclSuccess)
    return Error{"it is no NCCL: ncclGetVersion is missing or fails", library->path,
                 "name the path of libnccl.so.2"};
  if (auto fits = nccl_fits(api.version, library->path); !fits) return fits.error();
  const char* missing = nullptr;
#define NCCL_CHECK_RESOLVE(name) \
  if (!library->find("nccl" #name, api.name)) missing = "nccl" #name;
  NCCL_CHECK_NCCL_FUNCTIONS(NCCL_CHECK_RESOLVE)
#undef NCCL_CHECK_RESOLVE
  if (missing != nullptr)
    return Error{fmt::format("NCCL {} has no {}; nccl-check was built for NCCL {}",
                             nccl_version_text(api.version), missing, nccl_version_text(NCCL_VERSION_CODE)),
                 library->path, "name the path of a newer NCCL"};
  return api;
}

Status nccl_fits(int version, const std::string& path) {
  if (version >= oldest_nccl) return success();
  return Error{fmt::format("NCCL {} is too old, {} or newer is needed", nccl_version_text(version),
                           nccl_version_text(oldest_nccl)),
               path, "name the path of a newer NCCL"};
}

// Up to 2.8 NCCL counted 2.8.4 as 2804, since then 2.9.6 as 20906.
std::string nccl_version_text(int version) {
  const int step = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / step, version % step / 100, version % 100);
}

}  // namespace nccl_check::engine::nccl
