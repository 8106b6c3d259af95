#include "policy/state/recent.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"
#include "policy/state/locked_file.hpp"

namespace nccl_check::policy {
namespace {

constexpr const char* schema = "nccl-check.recent";
constexpr std::size_t most_passes = 16;
constexpr std::size_t most_facts = 64;
constexpr std::size_t longest_fact = 512;

bool take_facts(const Json& object, const char* key, Facts& out) {
  const auto* members = object_member(object, key, most_facts);
  if (members == nullptr) return false;
  for (const auto& [name, value] : *members) {
    const auto* text = value.get_ptr<const std::string*>();
    if (text == nullptr || name.size() > longest_fact || text->size() > longest_fact) return false;
    out[name] = *text;
  }
  return true;
}

Result<std::vector<Pass>> parse(const Json& object, const std::string& path) {
  std::vector<Pass> passes;
  const auto* list = array_member(object, "passes", most_passes);
  if (list == nullptr) return Error{"has no list of passes", path, "remove it"};
  for (const auto& entry : *list) {
    Pass pass;
    std::int64_t job = 0;
    std::string scope;
    if (!take(entry, "scope", 8, scope) || (scope != "node" && scope != "job") ||
        !take(entry, "time", 0, INT64_MAX, pass.time) || !take(entry, "job", 0, UINT32_MAX, job) ||
        !take(entry, "busbw", pass.busbw) || !take(entry, "limit", pass.limit) ||
        !take_facts(entry, "settings", pass.settings) || !take_facts(entry, "identity", pass.identity))
      return Error{"holds a pass that is none", path, "remove it"};
    pass.across_nodes = scope == "job";
    pass.job = static_cast<std::uint32_t>(job);
    passes.push_back(std::move(pass));
  }
  return passes;
}

Status write(const std::string& path, const std::string& node, const std::vector<Pass>& passes) {
  Json list = Json::array();
  for (const auto& pass : passes)
    list.push_back(Json{{"scope", pass.across_nodes ? "job" : "node"},
                        {"time", pass.time},
                        {"job", pass.job},
                        {"busbw", pass.busbw},
                        {"limit", pass.limit},
                        {"settings", pass.settings},
                        {"identity", pass.identity}});
  return write_state(path, schema, node, Json{{"passes", list}});
}

}  // namespace

Facts this_node(const std::string& root) {
  Facts facts{{"program", NCCL_CHECK_VERSION}};
  const auto add = [&](const char* name, const std::string& file) {
    const auto text = read_file(root + file, 4096, Trust::anyone);
    if (!text) return;
    const auto lines = split(*text, '\n');
    if (!lines.empty()) facts[name] = printable(trim(lines.front()), 200);
  };
  add("boot", "/proc/sys/kernel/random/boot_id");
  add("driver", "/proc/driver/nvidia/version");
  return facts;
}

std::optional<Pass> find_pass(const std::vector<Pass>& passes, bool across_nodes, const Facts& settings,
                              const Facts& identity, std::int64_t now, std::chrono::milliseconds reuse) {
  std::optional<Pass> best;
  // Without a boot id nothing tells whether the node has rebooted since.
  if (!identity.contains("boot")) return best;
  for (const auto& pass : passes) {
    const std::int64_t age = now - pass.time;
    if (pass.across_nodes != across_nodes || pass.settings != settings || pass.identity != identity) continue;
    if (age < 0 || age >= std::chrono::duration_cast<std::chrono::seconds>(reuse).count()) continue;
    if (!best || pass.time > best->time) best = pass;
  }
  return best;
}

Result<std::vector<Pass>> read_passes(const std::string& path, const std::string& node) {
  const auto object = read_state(path, schema, node);
  if (!object) return object.error();
  if (!*object) return std::vector<Pass>{};
  return parse(**object, path);
}

Status add_pass(const std::string& path, const std::string& node, const Pass& pass) {
  const auto lock = FileLock::take(path, Deadline::in(Milliseconds(500)));
  if (!lock) return lock.error();
  std::vector<Pass> passes;
  if (auto before = read_passes(path, node)) {
    passes = std::move(*before);
  } else {
    put_aside(path);
  }
  std::erase_if(passes, [&](const Pass& old) {
    return old.across_nodes == pass.across_nodes && old.settings == pass.settings;
  });
  passes.push_back(pass);
  if (passes.size() > most_passes) passes.erase(passes.begin(), passes.end() - most_passes);
  return write(path, node, passes);
}

Status forget_passes(const std::string& path, const std::string& node) {
  if (!file_exists(path)) return success();
  const auto lock = FileLock::take(path, Deadline::in(Milliseconds(500)));
  if (!lock) return lock.error();
  return write(path, node, {});
}

}  // namespace nccl_check::policy
