#include "job/session/messages.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "engine/json.hpp"

namespace nccl_check::verdict {

NLOHMANN_JSON_SERIALIZE_ENUM(Class, {{Class::untested, "untested"},
                                     {Class::pass, "pass"},
                                     {Class::slow, "slow"},
                                     {Class::hung, "hung"},
                                     {Class::corrupt, "corrupt"},
                                     {Class::broken, "broken"},
                                     {Class::mismatched, "mismatched"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeVerdict, node, cls, culprit, detail, reason, partners, busbw, limit)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobVerdict, cls, summary, busbw, limit, nodes, job_at_fault)

}  // namespace nccl_check::verdict

namespace nccl_check::job {

using nlohmann::json;

constexpr std::size_t most_figures = 1024;  // 16 GPUs, each pair of them: 168

NLOHMANN_JSON_SERIALIZE_ENUM(Participation, {{Participation::untested, "untested"},
                                             {Participation::measure, "measure"},
                                             {Participation::reuse, "reuse"},
                                             {Participation::off, "off"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Limit, busbw, source)

// Operations are keys here, so they are written by name.
static void to_json(json& j, const Join& v) {
  auto limits = json::object();
  for (const auto& [operation, limit] : v.limits) limits[std::string(verdict::name(operation))] = limit;
  j = {{"participation", v.participation},
       {"why", v.why},
       {"settings", v.settings},
       {"limits", limits},
       {"reused_busbw", v.reused_busbw}};
}
static void from_json(const json& j, Join& v) {
  v.participation = j.at("participation").get<Participation>();
  v.why = printable(j.at("why").get<std::string>(), 500);
  v.settings = j.at("settings").get<std::map<std::string, std::string>>();
  for (const auto& [name, limit] : j.at("limits").items()) {
    verdict::Operation operation{};
    if (!verdict::parse(name, operation))
      throw std::invalid_argument("limits: unknown operation " + printable(name));
    v.limits[operation] = limit.get<Limit>();
  }
  v.reused_busbw = j.at("reused_busbw").get<double>();
}

static void to_json(json& j, const Ready& v) {
  j = engine::Opened{v.description, v.address};
  j["alone"] = v.alone;
}
static void from_json(const json& j, Ready& v) {
  auto opened = j.get<engine::Opened>();
  v.description = std::move(opened.description);
  v.address = std::move(opened.address);
  const auto& alone = j.at("alone");
  if (!alone.is_array() || alone.size() > most_figures)
    throw std::invalid_argument("alone: no list of at most 1024");
  v.alone = alone.get<std::vector<engine::Figure>>();
}

static void to_json(json& j, const VerdictMessage& v) {
  j = {{"job", v.job}, {"seconds", v.seconds}, {"own", v.own ? json(*v.own) : json()}};
}
static void from_json(const json& j, VerdictMessage& v) {
  v.job = j.at("job").get<verdict::JobVerdict>();
  v.seconds = j.at("seconds").get<double>();
  if (!j.at("own").is_null()) v.own = j.at("own").get<verdict::NodeVerdict>();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Connect, id, place, limit_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measure, id, task, limit_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Restart, id, alone, rank, ranks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Answer, id, samples, connected)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failed, id, cls, stage, text, local)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Acted, text, drained, job_fails)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FailJob, requeued, held, cancelled, hold, avoid, out)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Final, lines, job_fails, action)

template <class T>
std::string encode(const T& message) {
  // A peer's error text may hold any bytes; what is no UTF-8 is replaced rather than thrown.
  return json(message).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
Result<T> decode(std::string_view payload) {
  try {
    return json::parse(payload).get<T>();
  } catch (const std::exception& e) {
    return Error{fmt::format("a message that does not fit: {}", printable(e.what())), "",
                 "all nodes need the same nccl-check"};
  }
}

#define NCCL_CHECK_MESSAGE(T)               \
  template std::string encode<T>(const T&); \
  template Result<T> decode<T>(std::string_view);
NCCL_CHECK_MESSAGE(Join)
NCCL_CHECK_MESSAGE(Ready)
NCCL_CHECK_MESSAGE(Connect)
NCCL_CHECK_MESSAGE(Measure)
NCCL_CHECK_MESSAGE(Restart)
NCCL_CHECK_MESSAGE(Answer)
NCCL_CHECK_MESSAGE(Failed)
NCCL_CHECK_MESSAGE(VerdictMessage)
NCCL_CHECK_MESSAGE(Acted)
NCCL_CHECK_MESSAGE(FailJob)
NCCL_CHECK_MESSAGE(Final)
#undef NCCL_CHECK_MESSAGE

}  // namespace nccl_check::job
