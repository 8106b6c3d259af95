#include "node/system.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "base/text.hpp"

namespace nccl_check::node {
namespace {

// "Max locked memory         65536                65536                bytes"
std::optional<std::uint64_t> memlock(Tree& tree, const std::string& file) {
  const auto text = tree.text(file);
  if (!text) return std::nullopt;
  for (const auto& line : split(*text, '\n')) {
    constexpr std::string_view key = "Max locked memory";
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    std::string soft;
    std::uint64_t bytes = 0;
    rest >> soft;
    if (soft == "unlimited") return no_limit;
    const auto [stop, code] = std::from_chars(soft.data(), soft.data() + soft.size(), bytes);
    if (code == std::errc{} && stop == soft.data() + soft.size()) return bytes;
  }
  return std::nullopt;
}

// "HugePages_Free:        0", "Hugepagesize:       2048 kB"
std::optional<std::uint64_t> meminfo(const std::string& text, std::string_view key) {
  for (const auto& line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    std::uint64_t value = 0;
    if (rest >> value) return value;
  }
  return std::nullopt;
}

// No file says how large a file system is, so a recording has it in one of its own.
std::optional<std::uint64_t> shm_bytes(Tree& tree) {
  if (tree.live()) {
    struct statvfs shm {};
    if (::statvfs("/dev/shm", &shm) != 0) return std::nullopt;
    return static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
  }
  const auto recorded = tree.number(recorded_shm);
  if (!recorded || *recorded < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*recorded);
}

Limits read_limits(Tree& tree) {
  Limits out;
  const std::string own = "/proc/self/limits";
  out.memlock = memlock(tree, own);
  out.origin.set("memlock", own, out.memlock.has_value());
  out.shm = shm_bytes(tree);
  out.origin.set("shm", "/dev/shm", out.shm.has_value());
  const auto text = tree.text("/proc/meminfo").value_or("");
  out.huge_pages = meminfo(text, "HugePages_Total:");
  out.huge_pages_free = meminfo(text, "HugePages_Free:");
  if (const auto kib = meminfo(text, "Hugepagesize:")) out.huge_page_size = *kib * 1024;
  out.origin.set("huge_pages", "/proc/meminfo", out.huge_pages.has_value());
  out.origin.set("huge_pages_free", "/proc/meminfo", out.huge_pages_free.has_value());
  out.origin.set("huge_page_size", "/proc/meminfo", out.huge_page_size.has_value());
  return out;
}

bool of_rdma(const std::string& module) {
  constexpr std::array<std::string_view, 8> starts{"ib_", "rdma_", "mlx",     "cxi",
                                                   "efa", "irdma", "bnxt_re", "hfi1"};
  return std::any_of(starts.begin(), starts.end(), [&](auto start) { return module.starts_with(start); });
}

// "6.1.0-26-amd64" is at least 5.12
std::optional<bool> kernel_has_dma_buf(const std::string& kernel) {
  unsigned major = 0, minor = 0;
  char dot = 0;
  std::istringstream words(kernel);
  if (!(words >> major >> dot >> minor) || dot != '.') return std::nullopt;
  return major > 5 || (major == 5 && minor >= 12);
}

Modules read_modules(Tree& tree, const std::string& kernel) {
  Modules out;
  const std::string file = "/proc/modules";
  if (const auto text = tree.text(file, 1U << 18U)) {
    out.peermem = false;
    out.rdma.emplace();
    for (const auto& line : split(*text, '\n')) {
      const auto module = line.substr(0, line.find(' '));
      if (module == "nvidia_peermem" || module == "nv_peer_mem") out.peermem = true;
      if (of_rdma(module)) out.rdma->push_back(printable(module, 64));
    }
    std::sort(out.rdma->begin(), out.rdma->end());
  }
  out.origin.set("peermem", file, out.peermem.has_value());
  out.origin.set("rdma", file, out.rdma.has_value());
  out.dma_buf = kernel_has_dma_buf(kernel);
  out.origin.set("dma_buf", "/proc/sys/kernel/osrelease", out.dma_buf.has_value());
  return out;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ..." and the open module's "NVIDIA UNIX Open
// Kernel Module for x86_64  580.95.05": the first word of digits and dots.
std::string driver_version(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  std::string word;
  while (words >> word)
    if (word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos)
      return printable(word, 32);
  return "";
}

constexpr std::array<const char*, 14> library_folders{"/usr/lib64",
                                                      "/usr/lib/x86_64-linux-gnu",
                                                      "/usr/lib/aarch64-linux-gnu",
                                                      "/usr/local/lib",
                                                      "/usr/local/cuda/lib64",
                                                      "/opt/amazon/efa/lib64",
                                                      "/opt/amazon/efa/lib",
                                                      "/opt/amazon/ofi-nccl/lib64",
                                                      "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
                                                      "/opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
                                                      "/opt/amazon/ofi-nccl/lib",
                                                      "/opt/aws-ofi-nccl/lib",
                                                      "/opt/libfabric/lib",
                                                      "/opt/nccl/lib"};

// The version is in the name of the file behind the link: libnccl.so.2 -> libnccl.so.2.28.9.
Library find_library(Tree& tree, const std::string& file, bool version_in_name) {
  for (const auto* folder : library_folders) {
    const std::string path = std::string(folder) + "/" + file;
    const auto real = tree.real(path);
    if (!real) continue;
    Library out{path, ""};
    const auto name = last_part(*real);
    const auto so = name.find(".so.");
    if (version_in_name && so != name.npos && std::count(name.begin(), name.end(), '.') >= 4)
      out.version = name.substr(so + 4);
    return out;
  }
  return {};
}

// libfabric's file name has its interface's number, not its release: pkg-config has that.
void read_release(Tree& tree, Library& library) {
  if (library.path.empty()) return;
  const auto folder = library.path.substr(0, library.path.rfind('/'));
  const auto text = tree.text(folder + "/pkgconfig/libfabric.pc").value_or("");
  for (const auto& line : split(text, '\n')) {
    constexpr std::string_view key = "Version:";
    if (line.starts_with(key))
      library.version = printable(trim(std::string_view(line).substr(key.size())), 32);
  }
}

}  // namespace

System read_system(Tree& tree) {
  System out;
  out.host = tree.line("/proc/sys/kernel/hostname").value_or("");
  out.origin.set("host", "/proc/sys/kernel/hostname", !out.host.empty());
  out.kernel = tree.line("/proc/sys/kernel/osrelease").value_or("");
  out.origin.set("kernel", "/proc/sys/kernel/osrelease", !out.kernel.empty());
  const std::string driver = "/proc/driver/nvidia/version";
  out.nvidia_driver = driver_version(tree.text(driver).value_or(""));
  out.origin.set("nvidia_driver", driver, !out.nvidia_driver.empty());
  out.limits = read_limits(tree);
  out.modules = read_modules(tree, out.kernel);
  out.nccl = find_library(tree, "libnccl.so.2", true);
  out.libfabric = find_library(tree, "libfabric.so.1", false);
  read_release(tree, out.libfabric);
  out.ofi_plugin = find_library(tree, "libnccl-net-ofi.so", false);
  if (out.ofi_plugin.path.empty()) out.ofi_plugin = find_library(tree, "libnccl-net-aws-ofi.so", false);
  return out;
}

}  // namespace nccl_check::node
