#pragma once
// What NVML's readings mean: pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/nccl/readings.hpp"

namespace nccl_check::engine::nccl {

// A GPU's readings with what it is called: "GPU 1 (0000:3b:00.0)".
struct Checked {
  std::string where;
  Readings readings;
};

// NVLinks that a GPU of this model has when all are well; 0: no such model is known, or its boards differ.
std::uint32_t nvlinks_of_model(const std::string& name);

// The first GPU that is broken, all its complaints in one text. Nothing: all are well as far as NVML says.
// Links are judged by the model, else by the GPU of the same name that has most of them up. A lone GPU with
// all links down is taken for a virtual machine's, where that is usual.
std::optional<Failure> judge_health(const std::vector<Checked>& gpus);

// Who else computes on a GPU, in words: "process 4711 is on it, too"; empty: nobody but `own`.
std::string company_text(const Readings& readings, std::uint32_t own);

// nvmlClocksEventReason* bits that mean that something is wrong, in words: "slowed down by power brake while
// measuring"; empty: none. Power capping by software is ordinary at full load.
std::string throttle_text(std::uint64_t reasons);

}  // namespace nccl_check::engine::nccl
