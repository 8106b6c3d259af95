#include "policy/paths.hpp"

#include <filesystem>
#include <vector>

#include "base/files.hpp"

namespace nccl_check::policy {

std::string find_slurm_program() {
  constexpr const char* name = "nccl-check-slurm";
  std::error_code code;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", code).parent_path();
  std::vector<std::filesystem::path> places;
  // What stands beside a program that root trusts is trusted as that program is.
  if (!code) places = {here / ".." / "libexec" / "nccl-check" / name, here / ".." / "slurm" / name};
  places.emplace_back(std::filesystem::path(NCCL_CHECK_LIBEXEC) / name);
  for (const auto& place : places)
    if (file_exists(place.string())) return place.lexically_normal().string();
  return "";
}

}  // namespace nccl_check::policy
