#pragma once
// The GPUs that are there, as CUDA and NVML name them. A GPU's number is its place on the healthy host.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace nccl_check::doubles {

std::vector<int> present();  // without those that are missing
std::vector<int> visible();  // of those, what CUDA_VISIBLE_DEVICES leaves, in its order
std::string device_name(int gpu);
std::array<unsigned char, 16> uuid(int gpu);
std::string uuid_text(int gpu);             // "GPU-..."
unsigned pci_bus(int gpu);                  // domain 0, device 0
std::string pci_address(int gpu);           // "0000:1b:00.0"
int number_of(const std::string& address);  // of any spelling that CUDA takes; -1: none

}  // namespace nccl_check::doubles
