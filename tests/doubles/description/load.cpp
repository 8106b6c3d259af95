#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/doubles/description/description.hpp"

namespace nccl_check::doubles {
namespace {

std::string host_name() {
  if (const char* given = std::getenv("NCCL_CHECK_SIMULATED_HOST")) return given;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::filesystem::path beside_library() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&beside_library), &info);
  const std::filesystem::path library = info.dli_fname != nullptr ? info.dli_fname : "";
  return library.parent_path() / "simulation.conf";
}

const Description* load() {
  const char* given = std::getenv("NCCL_CHECK_SIMULATION");
  const std::filesystem::path path = given != nullptr ? given : beside_library();
  std::ifstream file(path);
  if (!file && given != nullptr) {
    std::fprintf(stderr, "SIMULATED: %s (NCCL_CHECK_SIMULATION) cannot be read\n", path.c_str());
    return nullptr;
  }
  Parsed parsed = parse(file, host_name());
  if (!parsed.error) return new Description(std::move(parsed.description));
  std::fprintf(stderr, "SIMULATED: %s: %s\n", path.c_str(), parsed.error->c_str());
  return nullptr;
}

}  // namespace

const Description* description() {
  static const Description* const loaded = load();  // lives as long as the process: threads outlive main()
  return loaded;
}

}  // namespace nccl_check::doubles
