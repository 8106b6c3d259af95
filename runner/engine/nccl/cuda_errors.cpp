#include "engine/nccl/cuda_errors.hpp"

#include <fmt/format.h>

#include <array>

namespace nccl_check::engine::nccl {
namespace {

using verdict::Class;

struct Meaning {
  int code;
  Class cls;
  const char* what;
  const char* remedy;
};

constexpr const char* reset = "look for Xid lines in the kernel's log; reset the GPU or reboot the node";

// Broken is what only an admin can mend and what fails on this node alone; what another process or a setting
// brings about is untested.
constexpr std::array meanings{
    Meaning{2, Class::untested, "the GPU's memory is full", "end the processes that hold it"},
    Meaning{3, Class::untested, "the driver is not initialised", ""},
    Meaning{34, Class::broken, "the driver's stub library was loaded",
            "remove the toolkit's stubs folder from the library path"},
    Meaning{
        46, Class::untested, "the GPU is busy or not available",
        "another process has it exclusively, or its compute mode is 'prohibited' (nvidia-smi -q -d COMPUTE)"},
    Meaning{100, Class::broken, "the driver shows no GPU", "see nvidia-smi and the kernel's log"},
    Meaning{101, Class::broken, "the driver does not know that GPU", "see nvidia-smi and the kernel's log"},
    Meaning{200, Class::untested, "the driver does not take this build's kernels", "build for this GPU"},
    Meaning{209, Class::untested, "this build has no kernels for that GPU", "build for this GPU"},
    Meaning{214, Class::broken, "an uncorrectable ECC error", reset},
    Meaning{217, Class::untested, "peer access is not supported between these GPUs", ""},
    Meaning{218, Class::untested, "the driver can't compile the kernels' PTX for that GPU",
            "build for this GPU"},
    Meaning{220, Class::broken, "an uncorrectable NVLink error", reset},
    Meaning{222, Class::untested, "the driver is too old for the kernels' PTX", "update the driver"},
    Meaning{700, Class::broken, "an illegal memory access on the GPU", reset},
    Meaning{702, Class::broken, "a kernel ran into the driver's time limit", reset},
    Meaning{710, Class::broken, "a device-side assertion", reset},
    Meaning{713, Class::untested, "host memory could not be pinned", "see ulimit -l"},
    Meaning{714, Class::broken, "a hardware stack error on the GPU", reset},
    Meaning{715, Class::broken, "an illegal instruction on the GPU", reset},
    Meaning{716, Class::broken, "a misaligned address on the GPU", reset},
    Meaning{717, Class::broken, "an invalid address space on the GPU", reset},
    Meaning{718, Class::broken, "an invalid program counter on the GPU", reset},
    Meaning{719, Class::broken, "a kernel failed on the GPU", reset},
    Meaning{800, Class::untested, "not permitted", "see the permissions of /dev/nvidia*"},
    Meaning{802, Class::broken, "the system is not ready: the fabric manager is not running, or not yet",
            "systemctl status nvidia-fabricmanager; its version must be the driver's"},
    Meaning{803, Class::broken, "the driver and its libraries differ in version",
            "reload the nvidia modules or reboot the node"},
    Meaning{804, Class::untested, "the CUDA compatibility libraries don't support this GPU",
            "take the driver's own libcuda"},
    Meaning{805, Class::untested, "the MPS daemon can't be reached", "stop MPS, or restart it"},
    Meaning{806, Class::untested, "the MPS server failed", "restart MPS"},
    Meaning{807, Class::untested, "the MPS server is not ready", "restart MPS"},
    Meaning{808, Class::untested, "MPS has no room for one more client", ""},
    Meaning{
        999, Class::broken, "the driver fails for a reason it does not know",
        "the nvidia-uvm module or /dev/nvidia-uvm may be missing: nvidia-modprobe -u; see the kernel's log, "
        "reboot the node"},
};

}  // namespace

Failure cuda_failure(int code, std::string_view name, std::string_view doing, std::string_view where) {
  const std::string number =
      name.empty() ? fmt::format("CUDA error {}", code) : fmt::format("{}, {}", name, code);
  for (const auto& meaning : meanings)
    if (meaning.code == code)
      return {
          meaning.cls,
          {fmt::format("{} ({}) in {}", meaning.what, number, doing), std::string(where), meaning.remedy}};
  return {Class::untested, {fmt::format("{} failed: {}", doing, number), std::string(where), ""}};
}

}  // namespace nccl_check::engine::nccl
