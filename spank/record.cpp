#include "spank/record.hpp"

#include <sys/xattr.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"

namespace nccl_check::spank {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_line = 4096;
constexpr const char* shown_attribute = "trusted.nccl_check.shown";

Error refused(std::string what) {
  return Error{std::move(what), "", ""};
}

Error unlike(const char* key, const std::string& found, const std::string& expected) {
  return refused(std::string("'") + key + "' is " + found + ", expected " + expected);
}

// What a key holds, for a message; never an exception, never long.
std::string shown(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) return "missing";
  return printable(at->dump(-1, ' ', true, Json::error_handler_t::replace), 60);
}

const std::string* find_text(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? nullptr : at->get_ptr<const std::string*>();
}

bool holds(const Json& object, const char* key, std::uint32_t value) {
  const auto at = object.find(key);
  if (at == object.end()) return false;
  const auto* number = at->get_ptr<const Json::number_unsigned_t*>();
  return number != nullptr && *number == value;
}

// The record is of the job, step and user that it is wanted of.
Status check_identity(const Json& object, const Expected& expected) {
  const auto* schema = find_text(object, "schema");
  if (schema == nullptr || *schema != record_schema)
    return unlike("schema", shown(object, "schema"), std::string(record_schema));
  if (!holds(object, "version", record_version))
    return unlike("version", shown(object, "version"), std::to_string(record_version));
  if (!holds(object, "job", expected.job))
    return unlike("job", shown(object, "job"), std::to_string(expected.job));
  if (!holds(object, "uid", expected.user))
    return unlike("uid", shown(object, "uid"), std::to_string(expected.user));
  const auto step = object.find("step");
  const bool of_job = step == object.end() || step->is_null();
  if (expected.step ? !holds(object, "step", *expected.step) : !of_job)
    return unlike("step", shown(object, "step"), expected.step ? std::to_string(*expected.step) : "null");
  return success();
}

Status read_lines(const Json& object, std::vector<std::string>& lines) {
  const auto at = object.find("lines");
  if (at == object.end() || !at->is_array())
    return unlike("lines", shown(object, "lines"), "a list of texts");
  for (const auto& line : *at) {
    const auto* text = line.get_ptr<const std::string*>();
    if (text == nullptr) return unlike("lines", shown(object, "lines"), "a list of texts");
    lines.push_back(printable(*text, most_line));
  }
  return success();
}

// The name that a host list starts with: "r1n1" of "r[1-2]n[1-64],x". Not expanded: a list may stand for
// 65,536 names, and a hook has no time for that. "" for what is no host list.
std::string first_of(std::string_view nodes) {
  std::string name;
  std::size_t i = 0;
  while (i < nodes.size() && nodes[i] != ',') {
    if (nodes[i] != '[') {
      name += nodes[i++];
      continue;
    }
    const auto close = nodes.find(']', i);
    if (close == std::string_view::npos) return "";
    const auto ranges = nodes.substr(i + 1, close - i - 1);
    name += ranges.substr(0, ranges.find_first_of("-,"));
    i = close + 1;
  }
  return name;
}

}  // namespace

Result<Record> parse_record(std::string_view text, const Expected& expected) {
  if (text.size() > most_record_bytes)
    return refused("is " + std::to_string(text.size()) + " bytes, at most " +
                   std::to_string(most_record_bytes) + " are read");
  const auto object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return refused("is not a JSON object, or is cut off");
  if (auto identity = check_identity(object, expected); !identity) return identity.error();

  Record record;
  const auto* node = find_text(object, "node");
  const auto* nodes = find_text(object, "nodes");
  if (node == nullptr || node->empty()) return unlike("node", shown(object, "node"), "a node's name");
  if (nodes == nullptr) return unlike("nodes", shown(object, "nodes"), "a host list");
  record.node = *node;
  record.first_node = first_of(*nodes);
  if (record.first_node.empty()) return unlike("nodes", shown(object, "nodes"), "a host list");

  const auto* spec = find_text(object, "spec");
  if (spec == nullptr) return unlike("spec", shown(object, "spec"), "the words of --nccl-check");
  auto words = option::parse(*spec);
  if (const auto* bad = std::get_if<option::BadWord>(&words)) return refused("'spec': " + bad->line());
  record.spec = std::get<option::Spec>(words);

  const auto* verdict = find_text(object, "verdict");
  if (verdict == nullptr || !verdict::parse(*verdict, record.verdict))
    return unlike("verdict", shown(object, "verdict"),
                  "pass, slow, hung, corrupt, broken, mismatched or untested");

  const auto fails = object.find("job_fails");
  if (fails == object.end() || !fails->is_boolean())
    return unlike("job_fails", shown(object, "job_fails"), "true or false");
  record.job_fails = fails->get<bool>();

  const auto busbw = object.find("busbw");
  if (busbw != object.end() && !busbw->is_null()) {
    if (!busbw->is_number()) return unlike("busbw", shown(object, "busbw"), "a number");
    record.busbw = busbw->get<double>();
    if (!std::isfinite(record.busbw) || record.busbw < 0)
      return unlike("busbw", shown(object, "busbw"), "a rate in GB/s");
  }
  if (auto lines = read_lines(object, record.lines); !lines) return lines.error();
  return record;
}

std::string job_file(std::uint32_t job) {
  return std::string(job_folder) + "/" + std::to_string(job) + ".json";
}

Result<std::optional<Record>> read_record(const std::string& path, const Expected& expected) {
  if (!file_exists(path)) return std::optional<Record>{};
  auto text = read_file(path, most_record_bytes, Trust::root_only);
  if (!text) return text.error();
  auto record = parse_record(*text, expected);
  if (!record) return Error{record.error().what, path, "refused; the job counts as not checked"};
  return std::optional<Record>(std::move(*record));
}

bool claim_showing(const std::string& path, bool otherwise) {
  if (::lsetxattr(path.c_str(), shown_attribute, "1", 1, XATTR_CREATE) == 0) return true;
  return errno == EEXIST ? false : otherwise;
}

}  // namespace nccl_check::spank
