// The verdict record, as slurmstepd reads it from /run and from a step's program: whatever the bytes, the
// reader refuses or gives what can be shown and compared. Besides the raw bytes, each input is also tried as
// a value inside a good record, since random bytes seldom get as far as that.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "spank/record.hpp"

namespace {

using namespace nccl_check::spank;
using Json = nlohmann::json;

const Expected expected{1234, std::nullopt, 1000};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check(std::string_view text) {
  const auto record = parse_record(text, expected);
  if (!record) {
    require(!record.error().what.empty(), "a refusal without words");
    return;
  }
  require(!record->node.empty() && !record->first_node.empty(), "no node");
  require(std::isfinite(record->busbw) && record->busbw >= 0, "a rate that is none");
  for (const auto& line : record->lines)
    for (const char c : line)
      require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a control character");
}

Json good() {
  return {{"schema", "nccl-check.verdict"},
          {"version", 1},
          {"job", 1234},
          {"step", nullptr},
          {"uid", 1000},
          {"node", "n1"},
          {"nodes", "n[1-4]"},
          {"spec", "node"},
          {"verdict", "pass"},
          {"busbw", 1.5},
          {"job_fails", false},
          {"lines", {"a line"}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text);
  if (size < 2) return 0;
  auto changed = good();
  auto key = changed.begin();
  std::advance(key, data[0] % changed.size());
  const auto rest = text.substr(1);
  auto value = Json::parse(rest, nullptr, false);
  key.value() = value.is_discarded() ? Json(rest) : std::move(value);
  check(changed.dump(-1, ' ', false, Json::error_handler_t::replace));
  return 0;
}
