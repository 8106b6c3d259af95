#include "engine/json.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace nccl_check::engine {
namespace {

constexpr std::size_t most_address = 4096;
constexpr std::size_t most_samples = 4096;
constexpr std::size_t most_rails = 64;

std::string bytes_of(const nlohmann::json& j, const char* key) {
  auto bytes = from_hex(j.at(key).get_ref<const std::string&>());
  if (!bytes) throw std::invalid_argument(fmt::format("{}: {}", key, bytes.error().what));
  if (bytes->size() > most_address) throw std::invalid_argument(fmt::format("{}: longer than 4 KiB", key));
  return *bytes;
}

template <class Enum>
Enum word(const nlohmann::json& j, const char* key) {
  Enum value{};
  const auto& text = j.at(key).get_ref<const std::string&>();
  if (!verdict::parse(text, value))
    throw std::invalid_argument(fmt::format("{}: unknown word '{}'", key, printable(text, 40)));
  return value;
}

}  // namespace

void to_json(nlohmann::json& j, const Opened& v) {
  j = {{"description", v.description}, {"address", to_hex(v.address)}};
}
void from_json(const nlohmann::json& j, Opened& v) {
  v.description = j.at("description").get<Description>();
  v.address = bytes_of(j, "address");
}

void to_json(nlohmann::json& j, const Place& v) {
  j = {{"rank", v.rank},
       {"ranks", v.ranks},
       {"next", to_hex(v.next)},
       {"previous", to_hex(v.previous)},
       {"shared", to_hex(v.shared)}};
}
void from_json(const nlohmann::json& j, Place& v) {
  v.rank = j.at("rank").get<int>();
  v.ranks = j.at("ranks").get<int>();
  if (v.rank < 0 || v.ranks < 1 || v.rank >= v.ranks) throw std::invalid_argument("rank: not below ranks");
  v.next = bytes_of(j, "next");
  v.previous = bytes_of(j, "previous");
  v.shared = bytes_of(j, "shared");
}

void to_json(nlohmann::json& j, const Task& v) {
  j = {{"operation", verdict::name(v.operation)},
       {"bytes", v.bytes},
       {"warmups", v.warmups},
       {"iterations", v.iterations},
       {"verify", v.verify},
       {"seed", v.seed},
       {"partner", to_hex(v.partner)},
       {"partner_rank", v.partner_rank},
       {"round", v.round}};
}
void from_json(const nlohmann::json& j, Task& v) {
  v.operation = word<verdict::Operation>(j, "operation");
  v.bytes = j.at("bytes").get<std::uint64_t>();
  v.warmups = j.at("warmups").get<int>();
  v.iterations = j.at("iterations").get<int>();
  if (v.warmups < 0 || v.warmups > 1000 || v.iterations < 1 || v.iterations > static_cast<int>(most_samples))
    throw std::invalid_argument("iterations: out of range");
  v.verify = j.at("verify").get<bool>();
  v.seed = j.at("seed").get<std::uint64_t>();
  v.partner = bytes_of(j, "partner");
  v.partner_rank = j.at("partner_rank").get<int>();
  v.round = j.at("round").get<int>();
}

static nlohmann::json times_to_json(const std::vector<Nanoseconds>& times) {
  auto out = nlohmann::json::array();
  for (auto t : times) out.push_back(t.count());
  return out;
}
static std::vector<Nanoseconds> times_from_json(const nlohmann::json& times) {
  if (!times.is_array() || times.size() > most_samples)
    throw std::invalid_argument("times_ns: no list of at most 4096");
  std::vector<Nanoseconds> out;
  for (const auto& t : times) {
    const auto ns = t.get<std::int64_t>();
    if (ns <= 0) throw std::invalid_argument("times_ns: a time that is not positive");
    out.emplace_back(ns);
  }
  return out;
}

void to_json(nlohmann::json& j, const Samples& v) {
  auto rails = nlohmann::json::array();
  for (const auto& rail : v.rails)
    rails.push_back({{"device", rail.device}, {"times_ns", times_to_json(rail.times)}});
  j = {{"times_ns", times_to_json(v.times)}, {"bytes", v.bytes},     {"wrong", v.wrong},
       {"first_wrong", v.first_wrong},       {"starved", v.starved}, {"rails", rails}};
}
void from_json(const nlohmann::json& j, Samples& v) {
  v.times = times_from_json(j.at("times_ns"));
  v.bytes = j.at("bytes").get<std::uint64_t>();
  v.wrong = j.at("wrong").get<std::uint64_t>();
  v.first_wrong = printable(j.at("first_wrong").get<std::string>());
  v.starved = j.at("starved").get<double>();
  if (v.starved < 0 || v.starved > 1) throw std::invalid_argument("starved: not from 0 to 1");
  const auto& rails = j.at("rails");
  if (!rails.is_array() || rails.size() > most_rails)
    throw std::invalid_argument("rails: no list of at most 64");
  v.rails.clear();
  for (const auto& rail : rails)
    v.rails.push_back(
        {printable(rail.at("device").get<std::string>(), 80), times_from_json(rail.at("times_ns"))});
}

void to_json(nlohmann::json& j, const Figure& v) {
  j = {{"operation", verdict::name(v.operation)},
       {"subject", v.subject},
       {"ranks", v.ranks},
       {"samples", v.samples},
       {"ceiling", v.ceiling},
       {"ceiling_text", v.ceiling_text},
       {"remark", v.remark}};
}
void from_json(const nlohmann::json& j, Figure& v) {
  v.operation = word<verdict::Operation>(j, "operation");
  v.subject = printable(j.at("subject").get<std::string>(), 80);
  v.ranks = j.at("ranks").get<int>();
  v.samples = j.at("samples").get<Samples>();
  v.ceiling = j.at("ceiling").get<double>();
  v.ceiling_text = printable(j.at("ceiling_text").get<std::string>(), 120);
  v.remark = printable(j.at("remark").get<std::string>(), 200);
}

void to_json(nlohmann::json& j, const Connected& v) {
  j = {{"network", v.network}, {"remark", v.remark}};
}
void from_json(const nlohmann::json& j, Connected& v) {
  v.network = printable(j.at("network").get<std::string>(), 200);
  v.remark = printable(j.at("remark").get<std::string>(), 300);
}

void to_json(nlohmann::json& j, const Failure& v) {
  j = {{"class", verdict::name(v.cls)},
       {"what", v.error.what},
       {"where", v.error.where},
       {"remedy", v.error.remedy}};
}
void from_json(const nlohmann::json& j, Failure& v) {
  v.cls = word<verdict::Class>(j, "class");
  v.error.what = printable(j.at("what").get<std::string>(), 500);
  v.error.where = printable(j.at("where").get<std::string>());
  v.error.remedy = printable(j.at("remedy").get<std::string>());
}

}  // namespace nccl_check::engine
