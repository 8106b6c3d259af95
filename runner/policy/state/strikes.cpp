#include "policy/state/strikes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "policy/state/locked_file.hpp"

namespace nccl_check::policy {
namespace {

constexpr const char* schema = "nccl-check.strikes";
constexpr std::size_t most_strikes = 64;
constexpr std::size_t most_partners = 64;

std::int64_t seconds(std::chrono::milliseconds t) {
  return std::chrono::ceil<std::chrono::seconds>(t).count();
}

Result<std::vector<Strike>> parse(const Json& object, const std::string& path) {
  std::vector<Strike> strikes;
  const auto* list = array_member(object, "strikes", most_strikes);
  if (list == nullptr) return Error{"has no list of strikes", path, "remove it"};
  for (const auto& entry : *list) {
    Strike strike;
    std::int64_t job = 0;
    std::string cls;
    if (!take(entry, "time", 0, INT64_MAX, strike.time) || !take(entry, "job", 0, UINT32_MAX, job) ||
        !take(entry, "verdict", 32, cls) || !verdict::parse(cls, strike.cls) ||
        !take(entry, "partners", most_partners, 256, strike.partners))
      return Error{"holds a strike that is none", path, "remove it"};
    strike.job = static_cast<std::uint32_t>(job);
    strikes.push_back(std::move(strike));
  }
  return strikes;
}

Status write(const std::string& path, const std::string& node, const std::vector<Strike>& strikes) {
  Json list = Json::array();
  for (const auto& strike : strikes)
    list.push_back(Json{{"time", strike.time},
                        {"job", strike.job},
                        {"verdict", verdict::name(strike.cls)},
                        {"partners", strike.partners}});
  return write_state(path, schema, node, Json{{"strikes", list}});
}

}  // namespace

int count_strikes(const std::vector<Strike>& strikes, std::int64_t now, std::chrono::milliseconds window) {
  std::map<std::uint32_t, const Strike*> by_job;
  for (const auto& strike : strikes)
    if (strike.time > now - seconds(window) && strike.time <= now) by_job[strike.job] = &strike;
  int count = 0;
  int with_partners = 0;
  std::set<std::string> partners;
  for (const auto& [job, strike] : by_job) {
    ++count;
    if (strike->partners.empty()) continue;
    ++with_partners;
    partners.insert(strike->partners.begin(), strike->partners.end());
  }
  return partners.size() == 1 && with_partners > 1 ? count - with_partners + 1 : count;
}

Result<std::vector<Strike>> read_strikes(const std::string& path, const std::string& node) {
  const auto object = read_state(path, schema, node);
  if (!object) return object.error();
  if (!*object) return std::vector<Strike>{};
  return parse(**object, path);
}

Status add_strike(const std::string& path, const std::string& node, const Strike& strike,
                  std::chrono::milliseconds window) {
  const auto lock = FileLock::take(path, Deadline::in(Milliseconds(500)));
  if (!lock) return lock.error();
  std::vector<Strike> strikes;
  if (auto before = read_strikes(path, node)) {
    strikes = std::move(*before);
  } else {
    put_aside(path);
  }
  std::erase_if(strikes, [&](const Strike& old) {
    return old.time <= strike.time - seconds(window) || old.time > strike.time;  // a clock that was set back
  });
  strikes.push_back(strike);
  if (strikes.back().partners.size() > most_partners) strikes.back().partners.resize(most_partners);
  if (strikes.size() > most_strikes) strikes.erase(strikes.begin(), strikes.end() - most_strikes);
  return write(path, node, strikes);
}

Status clear_strikes(const std::string& path, const std::string& node) {
  const auto lock = FileLock::take(path, Deadline::in(Milliseconds(500)));
  if (!lock) return lock.error();
  return write(path, node, {});
}

}  // namespace nccl_check::policy
