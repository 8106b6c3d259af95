#include "commands/env_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace nccl_check::commands {
namespace {

using environment::Change;
using environment::Decision;
using json = nlohmann::ordered_json;

struct Row {
  std::string name, value, why, source;
};

constexpr std::size_t widest = 36;  // a longer value has a line of its own

std::string shown(const Decision& d) {
  if (d.change == Change::unset) return "(unset)";
  return d.change == Change::prepend ? d.value + ":..." : d.value;
}

std::string rows_text(const std::vector<Row>& rows) {
  std::size_t name = 0, value = 0;
  for (const auto& row : rows) {
    name = std::max(name, row.name.size());
    if (row.value.size() <= widest) value = std::max(value, row.value.size());
  }
  std::string out;
  for (const auto& row : rows) {
    const auto shown_value = printable(row.value, 1000);
    if (shown_value.size() > widest)
      out +=
          fmt::format("{:{}}  {}\n{:{}}  {}\n", row.name, name, shown_value, "", name + 2 + value, row.why);
    else
      out += fmt::format("{:{}}  {:{}}  {}\n", row.name, name, shown_value, value, row.why);
    if (!row.source.empty()) out.insert(out.size() - 1, "  [" + row.source + "]");
  }
  return out;
}

std::string section(const std::string& title, const std::vector<Row>& rows) {
  return rows.empty() ? "" : "\n" + title + "\n" + rows_text(rows);
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string env_table(const EnvReport& report) {
  std::string out =
      fmt::format("node {}, NCCL {}{}\n", report.node.empty() ? "unknown" : report.node,
                  report.nccl.empty() ? "unknown" : report.nccl,
                  report.nccl.empty() || report.nccl_from.empty() ? "" : " (" + report.nccl_from + ")");
  for (const auto& note : report.plan.notes) out += "note: " + note + "\n";
  std::vector<Row> rows;
  for (const auto& d : report.plan.decisions) rows.push_back({d.variable, shown(d), d.why, d.source});
  out += rows.empty() ? "\nnothing is set\n" : section("set:", rows);
  rows.clear();
  for (const auto& left : report.plan.left_out) rows.push_back({left.what, "", left.why, ""});
  out += section("left out:", rows);
  rows.clear();
  for (const auto& [name, v] : report.in_force.values)
    rows.push_back({name, v.value, v.hidden.empty() ? "" : "before " + join(v.hidden, ", "), v.source});
  out += section("in force already:", rows);
  rows.clear();
  for (const auto& remark : report.remarks) rows.push_back({remark.variable, "", remark.text, ""});
  out += section("remarks:", rows);
  rows.clear();
  for (const auto& bad : report.in_force.bad_lines) rows.push_back({bad.source, "", bad.what, ""});
  return out + section("bad lines:", rows);
}

std::string env_shell(const EnvReport& report) {
  std::string out;
  for (const auto& note : report.plan.notes) out += "# " + printable(note, 1000) + "\n";
  for (const auto& d : report.plan.decisions) {
    out += fmt::format("# {} [{}]\n", printable(d.why, 1000), printable(d.source, 1000));
    if (d.change == Change::unset)
      out += fmt::format("unset {}\n", d.variable);
    else if (d.change == Change::prepend)
      out += fmt::format("export {0}={1}\"${{{0}:+:${0}}}\"\n", d.variable, quoted(d.value));
    else
      out += fmt::format("export {}={}\n", d.variable, quoted(d.value));
  }
  return out;
}

std::string env_json(const EnvReport& report) {
  json out{{"node", report.node}, {"nccl", report.nccl.empty() ? "unknown" : report.nccl}};
  out["decisions"] = json::array();
  for (const auto& d : report.plan.decisions)
    out["decisions"].push_back({{"variable", d.variable},
                                {"change", environment::name(d.change)},
                                {"value", d.value},
                                {"why", d.why},
                                {"source", d.source}});
  out["left_out"] = json::array();
  for (const auto& left : report.plan.left_out)
    out["left_out"].push_back({{"what", left.what}, {"why", left.why}});
  out["in_force"] = json::array();
  for (const auto& [name, v] : report.in_force.values)
    out["in_force"].push_back(
        {{"variable", name}, {"value", v.value}, {"source", v.source}, {"hides", v.hidden}});
  out["remarks"] = json::array();
  for (const auto& remark : report.remarks)
    out["remarks"].push_back({{"variable", remark.variable}, {"text", remark.text}});
  out["bad_lines"] = json::array();
  for (const auto& bad : report.in_force.bad_lines)
    out["bad_lines"].push_back({{"source", bad.source}, {"what", bad.what}});
  out["notes"] = report.plan.notes;
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace nccl_check::commands
