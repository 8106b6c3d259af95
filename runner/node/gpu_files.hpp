#pragma once
// The device files of NVIDIA's driver. A process without rights has the driver's own setuid helper make them;
// one with no_new_privs can't, so root makes them before.
#include <string>

#include "base/deadline.hpp"
#include "base/result.hpp"

namespace nccl_check::node {

// Loads nvidia-uvm where it is not loaded, and makes /dev/nvidiactl, /dev/nvidia0..., /dev/nvidia-uvm and
// /dev/nvidia-uvm-tools where they are missing, by the driver's helper nvidia-modprobe or, without it, by the
// numbers in /proc/devices. Nothing to do: costs a few calls of stat. An error where one can't be made; no
// NVIDIA driver at all is none, since the engine says that better.
Status make_gpu_files(const std::string& root, Deadline deadline);

}  // namespace nccl_check::node
