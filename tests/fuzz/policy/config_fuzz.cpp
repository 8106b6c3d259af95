// nccl-check.toml of any content: a configuration within its bounds, or errors that say where; and the first
// look never leaves a job alone that the whole reading would check.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policy/config.hpp"

#include "policy/first_look.hpp"

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nccl_check::policy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto loaded = parse_config(text, "c.toml");
  demand(loaded.config.has_value() == loaded.errors.empty());
  for (const auto& error : loaded.errors) demand(error.where.starts_with("c.toml:") && !error.what.empty());
  if (!loaded.config) return 0;
  const Config& config = *loaded.config;
  if (first_look(text) == FirstLook::nothing_to_do) demand(config.when == When::requested);
  demand(config.join <= config.deadline && config.deadline.count() >= 1000 &&
         config.deadline.count() <= 600'000);
  demand(config.ports.first >= 1024 && config.ports.last >= config.ports.first + 15);
  demand(config.scopes.node || config.scopes.job);
  demand(config.strikes >= 1 && config.breaker_percent >= 0 && config.breaker_percent <= 100);
  demand(config.action(nccl_check::verdict::Class::pass) == nccl_check::verdict::Action::allow);
  demand(config.action(nccl_check::verdict::Class::untested) < nccl_check::verdict::Action::strike);
  for (const auto& limit : config.limits) demand(limit.busbw > 0 && limit.from_size > 0);
  return 0;
}
