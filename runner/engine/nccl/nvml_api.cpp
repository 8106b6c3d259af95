#include "engine/nccl/nvml_api.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "engine/nccl/library.hpp"

namespace nccl_check::engine::nccl {
namespace {

constexpr Wanted wanted{"NVML", "libnvidia-ml.so.1",
                        "install the NVIDIA driver's libraries, or name libnvidia-ml's path"};

}  // namespace

std::string NvmlApi::error(int code) const {
  const char* text = error_string == nullptr ? nullptr : error_string(code);
  return text == nullptr ? fmt::format("error {}", code) : fmt::format("{} ({})", printable(text), code);
}

Result<NvmlApi> open_nvml(const std::string& path) {
  auto library = open_library(wanted, path);
  if (!library) return library.error();
  NvmlApi api;
  api.path = library->path;
  const char* missing = nullptr;
#define NCCL_CHECK_RESOLVE(symbol, member, ...) \
  if (!library->find(#symbol, api.member)) missing = #symbol;
  NCCL_CHECK_NVML_NEEDED(NCCL_CHECK_RESOLVE)
#undef NCCL_CHECK_RESOLVE
  if (missing != nullptr)
    return Error{fmt::format("NVML has no {}", missing), library->path, "name the path of libnvidia-ml.so.1"};
#define NCCL_CHECK_RESOLVE(symbol, member, ...) library->find(#symbol, api.member);
  NCCL_CHECK_NVML_WELCOME(NCCL_CHECK_RESOLVE)
#undef NCCL_CHECK_RESOLVE
  library->find("nvmlErrorString", api.error_string);
  return api;
}

}  // namespace nccl_check::engine::nccl
