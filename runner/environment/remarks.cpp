#include "environment/remarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace nccl_check::environment {
namespace {

using Names = std::vector<std::string>;

class Remarks {
 public:
  Remarks(const InForce& in_force, const node::Facts& facts, const Situation& situation)
      : in_force_(in_force), facts_(facts), situation_(situation) {}

  std::vector<Remark> all() {
    for (const auto& [variable, value] : in_force_.values) quotes(value);
    sockets();
    hcas();
    gid();
    files();
    slow();
    return std::move(out_);
  }

 private:
  const std::string* value(const std::string& variable) const {
    const auto found = in_force_.values.find(variable);
    return found == in_force_.values.end() ? nullptr : &found->second.value;
  }

  template <class... Args>
  void say(const std::string& variable, fmt::format_string<Args...> text, Args&&... args) {
    out_.push_back({variable, fmt::format(text, std::forward<Args>(args)...)});
  }

  void quotes(const Value& v) {
    if (v.source != "environment" || v.value.size() < 2) return;
    const char first = v.value.front();
    if ((first == '"' || first == '\'') && v.value.back() == first)
      say(v.variable, "{} has quotes in its value: NCCL takes them as part of it", printable(v.value));
  }

  // What is wrong with the list itself. False: nothing of it counts.
  bool shape(const std::string& variable, const std::string& given, const NameList& list) {
    if (given.size() == 1 && variable == "NCCL_SOCKET_IFNAME") {
      say(variable, "'{}' has one character: NCCL ignores it", printable(given));
      return false;
    }
    for (const auto& name : list.names) {
      if (name.empty()) continue;
      if (name.front() == '=' || name.front() == '^')
        say(variable, "'{}': = and ^ count at the start of the whole list alone, so nothing is called that",
            printable(name));
      if (name.find_first_of(" \t") != name.npos)
        say(variable, "'{}': the blank belongs to the name, so nothing is called that", printable(name));
    }
    return true;
  }

  // "mlx5_1 also takes mlx5_10 and mlx5_11", and names that nothing has.
  void prefixes(const std::string& variable, const NameList& list, const Names& there, const char* what) {
    for (const auto& entry : list.names) {
      const auto bare = entry.substr(0, entry.find(':'));
      if (bare.empty() || bare.find_first_of("=^ \t") != bare.npos) continue;
      Names taken;
      for (const auto& name : there)
        if (list.names_it(entry, name)) taken.push_back(name);
      if (taken.empty()) {
        say(variable, "there is no {} {} here", what, printable(bare));
        continue;
      }
      const auto itself = std::find(taken.begin(), taken.end(), bare);
      if (itself == taken.end() || taken.size() == 1) continue;
      taken.erase(itself);
      say(variable, "{} also takes {} ({}= at the start makes it exact)", bare, listed(taken),
          list.exclude ? "^" : "");
    }
  }

  static std::string listed(const Names& names) {
    if (names.size() == 1) return names.front();
    const Names first(names.begin(), names.end() - 1);
    return join(first, ", ") + " and " + names.back();
  }

  void sockets() {
    const std::string variable = "NCCL_SOCKET_IFNAME";
    const auto* given = value(variable);
    if (given == nullptr || given->empty()) return;
    const auto list = parse_list(*given);
    if (!shape(variable, *given, list) || !facts_.interfaces) return;
    Names there;
    for (const auto& i : *facts_.interfaces) there.push_back(i.name);
    if (!list.exclude) prefixes(variable, list, there, "interface");
    for (const auto& i : *facts_.interfaces) {
      if (!list.takes(i.name)) continue;
      if (i.kind == node::Kind::loopback)
        say(variable, "lets {} through, the loopback: add it to the list", i.name);
      else if (!list.exclude && !i.up && !i.origin.unknown("up"))
        say(variable, "{} is down", i.name);
      else if (!list.exclude && !i.carrier && !i.origin.unknown("carrier"))
        say(variable, "{} has no carrier", i.name);
    }
  }

  void hcas() {
    const std::string variable = "NCCL_IB_HCA";
    const auto* given = value(variable);
    if (given == nullptr || given->empty()) return;
    const auto list = parse_list(*given);
    if (!shape(variable, *given, list) || !facts_.rdma) return;
    Names there;
    for (const auto& device : *facts_.rdma) there.push_back(device.name);
    prefixes(variable, list, there, "HCA");
    if (list.exclude) return;
    for (const auto& device : *facts_.rdma)
      for (const auto& port : device.ports)
        if (list.takes(device.name) && port.active == false)
          say(variable, "{}:{} is {}: NCCL skips it in silence", device.name, port.number, port.state);
  }

  void gid() {
    if (value("NCCL_IB_GID_INDEX") != nullptr && situation_.nccl && *situation_.nccl >= Version{2, 21, 0})
      say("NCCL_IB_GID_INDEX", "NCCL {} finds it by itself: a fixed one can be wrong on another node",
          situation_.nccl->text());
  }

  void files() {
    for (const char* variable : {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"}) {
      const auto* path = value(variable);
      if (path == nullptr || path->empty()) continue;
      if (!situation_.exists(*path))
        say(variable, "{} is not there", printable(*path));
      else if (variable == std::string_view("NCCL_GRAPH_FILE"))
        say(variable,
            "a graph of another NCCL or another machine makes init fail (XML Import Channel) or run slowly");
    }
  }

  // Honest ways to make a healthy machine slow.
  void slow() {
    for (const char* variable : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"})
      if (const auto* v = value(variable); v != nullptr && *v != "0" && !v->empty())
        say(variable, "GPUs of a node then go through {}",
            variable == std::string_view("NCCL_P2P_DISABLE") ? "the host's memory: a tenth of NVLink"
                                                             : "the network");
    const auto* net = value("NCCL_NET");
    const auto* off = value("NCCL_IB_DISABLE");
    const bool no_ib =
        (net != nullptr && *net == "Socket") || (off != nullptr && *off != "0" && !off->empty());
    if (no_ib && has_active_port())
      say(net != nullptr && *net == "Socket" ? "NCCL_NET" : "NCCL_IB_DISABLE",
          "the RDMA ports of this node are not used");
  }

  bool has_active_port() const {
    if (!facts_.rdma) return false;
    return std::any_of(facts_.rdma->begin(), facts_.rdma->end(), [](const auto& device) {
      return std::any_of(device.ports.begin(), device.ports.end(),
                         [](const auto& p) { return p.active == true; });
    });
  }

  const InForce& in_force_;
  const node::Facts& facts_;
  const Situation& situation_;
  std::vector<Remark> out_;
};

}  // namespace

NameList parse_list(const std::string& value) {
  NameList out;
  std::string_view rest = value;
  out.exclude = rest.starts_with('^');
  if (out.exclude) rest.remove_prefix(1);
  out.exact = rest.starts_with('=');
  if (out.exact) rest.remove_prefix(1);
  out.names = split(rest, ',');
  return out;
}

bool NameList::names_it(const std::string& entry, const std::string& name) const {
  const auto bare = entry.substr(0, entry.find(':'));
  return !bare.empty() && (exact ? name == bare : name.starts_with(bare));
}

bool NameList::takes(const std::string& name) const {
  const bool named =
      std::any_of(names.begin(), names.end(), [&](const auto& entry) { return names_it(entry, name); });
  return named != exclude;
}

std::vector<Remark> remark(const InForce& in_force, const node::Facts& facts, const Situation& situation) {
  return Remarks(in_force, facts, situation).all();
}

}  // namespace nccl_check::environment
