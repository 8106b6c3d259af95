#pragma once
// As much of the CUDA driver as the check needs, opened at run time. Whatever fails ends the program.
#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nccl_check::kernels {

class Driver {
 public:
  Driver();  // the first GPU's primary context, and the module of kernels::image()
  [[nodiscard]] std::string device_name() const;
  [[nodiscard]] unsigned multiprocessors() const;

  CUdeviceptr allocate(std::size_t bytes);
  void release(CUdeviceptr memory);
  void set(CUdeviceptr memory, unsigned char byte, std::size_t bytes);
  void put(CUdeviceptr to, const void* from, std::size_t bytes);
  void get(void* to, CUdeviceptr from, std::size_t bytes);
  std::uint32_t* host_flag();  // pinned; the same address on the GPU
  CUdeviceptr device_address(void* host);

  template <class Arguments>
  void launch(const char* kernel, Arguments arguments, unsigned grid, unsigned block) {
    start(kernel, &arguments, grid, block);
  }
  void wait();
  // Milliseconds of one launch by events.
  template <class Arguments>
  float time(const char* kernel, Arguments arguments, unsigned grid, unsigned block) {
    begin_time();
    start(kernel, &arguments, grid, block);
    return end_time();
  }

  float time_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);  // the driver's own

 private:
  void start(const char* kernel, void* arguments, unsigned grid, unsigned block);
  void begin_time();
  float end_time();
  CUmodule module_ = nullptr;
  CUdevice device_ = 0;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

// Device memory for the time of a block.
class Memory {
 public:
  Memory(Driver& driver, std::size_t bytes) : driver_(driver), address_(driver.allocate(bytes + 1)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { driver_.release(address_); }
  [[nodiscard]] CUdeviceptr at(std::size_t offset = 0) const { return address_ + offset; }
  template <class T = void>
  [[nodiscard]] T* pointer(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(address_ + offset);
  }

 private:
  Driver& driver_;
  CUdeviceptr address_;
};

class Tally {
 public:
  void check(bool right, const std::string& what);
  void line(const std::string& group);  // what was checked since the last line
  int finish() const;

 private:
  std::uint64_t checks_ = 0, failures_ = 0, seen_ = 0, seen_failures_ = 0;
};

void check_data(Driver& driver, Tally& tally);
void check_streams(Driver& driver, Tally& tally);
void check_latch(Driver& driver, Tally& tally);
void print_rates(Driver& driver);

}  // namespace nccl_check::kernels
