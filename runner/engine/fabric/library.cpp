#include "engine/fabric/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"

namespace nccl_check::engine::fabric {
namespace {

class SignalGuard {
 public:
  SignalGuard() {
    for (int s = 1; s < count; ++s) valid_[index(s)] = sigaction(s, nullptr, &saved_[index(s)]) == 0;
  }
  ~SignalGuard() {
    for (int s = 1; s < count; ++s)
      if (valid_[index(s)] && s != SIGKILL && s != SIGSTOP) sigaction(s, &saved_[index(s)], nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  static constexpr int count = 32;  // the real-time signals are nobody's habit to take
  static std::size_t index(int s) { return static_cast<std::size_t>(s); }
  std::array<struct sigaction, count> saved_{};
  std::array<bool, count> valid_{};
};

constexpr std::uint32_t oldest =
    FI_VERSION(1, 6);  // the first where memory registration modes are as used here

template <class Function>
bool find(void* handle, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(handle, name));
  return out != nullptr;
}

// "libfabric: 1.17.0\nlibfabric api: 1.17" or, by another distribution, without the first line.
std::string version_of(void* handle, std::uint32_t api) {
  decltype(&::fi_tostr) tostr = nullptr;
  if (find(handle, "fi_tostr", tostr)) {
    const char* said = tostr(nullptr, FI_TYPE_VERSION);
    const std::string text = said == nullptr ? "" : said;
    const auto at = text.find("libfabric: ");
    if (at != std::string::npos) {
      const auto begin = at + std::strlen("libfabric: ");
      return printable(trim(text.substr(begin, text.find('\n', begin) - begin)), 40);
    }
  }
  return fmt::format("{}.{}", FI_MAJOR(api), FI_MINOR(api));
}

}  // namespace

std::string Library::error(long code) const {
  const char* text = strerror(static_cast<int>(code < 0 ? -code : code));
  return text == nullptr ? fmt::format("error {}", code) : text;
}

Result<Library> open_library(const std::string& path) {
  const std::string name = path.empty() ? "libfabric.so.1" : path;
  // Data here is host memory only: with this, versions that would open a GPU's driver at the first call
  // don't.
  setenv("FI_HMEM", "system", 0);
  void* handle = nullptr;
  {
    const SignalGuard guard;
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (handle == nullptr) {
    const char* why = dlerror();
    return Error{
        fmt::format("libfabric could not be opened: {}", why == nullptr ? name : printable(why, 300)), "",
        "install libfabric1 (Debian, Ubuntu) or libfabric (EL, SUSE), or name the library's path"};
  }
  Library library;
  decltype(&::fi_version) version = nullptr;
  if (!find(handle, "fi_getinfo", library.getinfo) || !find(handle, "fi_freeinfo", library.freeinfo) ||
      !find(handle, "fi_dupinfo", library.dupinfo) || !find(handle, "fi_fabric", library.fabric) ||
      !find(handle, "fi_strerror", library.strerror) || !find(handle, "fi_version", version)) {
    const char* why = dlerror();
    return Error{
        fmt::format("{} is no libfabric: {}", printable(name), why == nullptr ? "" : printable(why, 300)), "",
        "name the path of libfabric.so.1"};
  }
  const std::uint32_t offered = version();
  library.version = version_of(handle, offered);
  if (offered < oldest)
    return Error{fmt::format("libfabric {} is too old", library.version), name, "1.6 or newer is needed"};
  library.api = std::min<std::uint32_t>(offered, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
  return library;
}

Result<Info> query(const Library& library, const std::string& provider) {
  const Info hints(library.dupinfo(nullptr), library.freeinfo);
  if (!hints) return Error{"libfabric could not allocate memory", "fi_allocinfo", ""};
  hints->caps = FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;  // every operation here has a context of that size
  hints->ep_attr->type = FI_EP_RDM;
  // Registrations are only made for FI_MR_LOCAL; the others are modes of remote access, which is not used.
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread drives all
  if (!provider.empty()) hints->fabric_attr->prov_name = strdup(provider.c_str());
  fi_info* list = nullptr;
  int rc = 0;
  // The first call costs 0.1 s of CPU in libfabric 1.17: its verbs provider reads all of /proc/kallsyms
  // twice, whoever is asked for. A supervisor that hides that file from the worker saves it.
  {
    const SignalGuard guard;
    rc = library.getinfo(library.api, nullptr, nullptr, 0, hints.get(), &list);
  }
  if (rc == -FI_ENODATA) return Info(nullptr, library.freeinfo);
  if (rc != 0)
    return Error{fmt::format("libfabric could not list its providers: {}", library.error(rc)), "fi_getinfo",
                 ""};
  return Info(list, library.freeinfo);
}

}  // namespace nccl_check::engine::fabric
