#pragma once
// Workers as processes on the stand-ins of CUDA, NCCL and NVML, each on a simulated host of its own.
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace nccl_check::engine::nccl {

// What a worker says to all others: gives every worker's word, in their order.
using Tell = std::function<std::vector<std::string>(const std::string&)>;
// What a worker does; its result's text.
using Act = std::function<std::string(Engine&, int worker, const Tell&)>;

// `simulation`: as tests/doubles/description says. One worker a host, named n1, n2, ... Each word of a
// worker that ended early, and its result, is "(gone)".
std::vector<std::string> run_nodes(const std::string& simulation, int hosts, const Act& act);

Settings on_doubles();
Deadline soon();  // 20 s

std::string text_of(const Failure& failure);  // "hung: GPU 1 (...): ..."

}  // namespace nccl_check::engine::nccl
