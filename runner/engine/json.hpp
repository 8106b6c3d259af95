#pragma once
// The engine's types as JSON, for the pipe between a gate and its worker and for the nodes' messages.
// Addresses are opaque bytes, so they travel as hexadecimal digits. from_json throws on anything that does
// not fit: call it through decode().
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "engine/engine.hpp"

namespace nccl_check::engine {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Settings, engine, provider, interfaces, toward, library, cuda_library,
                                   nvml_library, gpus, most_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Description, engine, versions, devices, device_text, ranks, line_rate,
                                   line_text)

void to_json(nlohmann::json& j, const Opened& v);
void from_json(const nlohmann::json& j, Opened& v);
void to_json(nlohmann::json& j, const Place& v);
void from_json(const nlohmann::json& j, Place& v);
void to_json(nlohmann::json& j, const Task& v);
void from_json(const nlohmann::json& j, Task& v);
void to_json(nlohmann::json& j, const Samples& v);
void from_json(const nlohmann::json& j, Samples& v);
void to_json(nlohmann::json& j, const Figure& v);
void from_json(const nlohmann::json& j, Figure& v);
void to_json(nlohmann::json& j, const Connected& v);
void from_json(const nlohmann::json& j, Connected& v);
void to_json(nlohmann::json& j, const Failure& v);
void from_json(const nlohmann::json& j, Failure& v);

}  // namespace nccl_check::engine
