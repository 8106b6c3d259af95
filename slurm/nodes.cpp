#include "slurm/nodes.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/text.hpp"
#include "slurm/compat.hpp"

namespace nccl_check::slurm {
namespace {

std::string text(const char* from) {
  return from == nullptr ? "" : from;
}
bool is_ours(const std::string& reason) {
  return reason.starts_with(our_prefix);
}

struct NodeMessage {
  node_info_msg_t* message = nullptr;
  NodeMessage() = default;
  NodeMessage(const NodeMessage&) = delete;
  NodeMessage& operator=(const NodeMessage&) = delete;
  ~NodeMessage() { slurm_free_node_info_msg(message); }
  // Slots of deleted nodes are empty.
  [[nodiscard]] std::vector<const node_info_t*> nodes() const {
    std::vector<const node_info_t*> out;
    for (std::uint32_t i = 0; message != nullptr && i < message->record_count; ++i)
      if (message->node_array[i].name != nullptr) out.push_back(&message->node_array[i]);
    return out;
  }
};

// One node's record, or nothing and the answer that says why.
const node_info_t* load_node(const std::string& name, NodeMessage& into, Answer& failed) {
  std::string copy = name;
  if (slurm_load_node_single(&into.message, copy.data(), SHOW_ALL) != SLURM_SUCCESS) {
    failed = failed_call("loading the node");
    return nullptr;
  }
  for (const auto* node : into.nodes())
    if (name == node->name) return node;
  failed = refused(fmt::format("Slurm knows no node '{}'", printable(name)));
  return nullptr;
}

// Which partitions there are, how large, and which of them a node is in (a node's own record does not say).
struct Partitions {
  partition_info_msg_t* message = nullptr;
  Partitions() = default;
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;
  ~Partitions() { slurm_free_partition_info_msg(message); }
  bool load() { return slurm_load_partitions(0, &message, SHOW_ALL) == SLURM_SUCCESS; }
  [[nodiscard]] std::map<std::string, std::set<std::string>> nodes() const {
    std::map<std::string, std::set<std::string>> out;
    for (std::uint32_t i = 0; i < message->record_count; ++i) {
      auto& here = out[text(message->partition_array[i].name)];
      const auto names = expand_hostlist(text(message->partition_array[i].nodes));
      if (names) here.insert(names->begin(), names->end());
    }
    return out;
  }
};

std::vector<std::string> partitions_of(const std::string& node,
                                       const std::map<std::string, std::set<std::string>>& partitions) {
  std::vector<std::string> out;
  for (const auto& [name, nodes] : partitions)
    if (nodes.contains(node)) out.push_back(name);
  return out;
}

Answer set_state(const std::string& name, std::uint32_t state, const std::string& reason) {
  update_node_msg_t update;
  slurm_init_update_node_msg(&update);
  std::string node = name;
  std::string why = reason;
  update.node_names = node.data();
  update.node_state = state;
  if (!why.empty()) update.reason = why.data();
  if (slurm_update_node(&update) != SLURM_SUCCESS) return failed_call("updating the node");
  return {Json{{"done", true}}, exit_definite};
}

}  // namespace

Answer addresses(const std::vector<std::string>& nodes, bool ask) {
  Json known = Json::object();
  Json unknown = Json::array();
  for (const auto& name : nodes) {
    if (char* address = slurm_conf_get_address(name.c_str()); address != nullptr) {
      known[name] = address;
      void* memory = address;
      slurm_xfree(&memory);
      continue;
    }
    Answer failed;
    NodeMessage message;
    const node_info_t* node = ask ? load_node(name, message, failed) : nullptr;
    if (ask && failed.exit_code == exit_no_answer) return failed;
    if (node != nullptr && !text(node->node_addr).empty()) {
      known[name] = node->node_addr;
    } else {
      unknown.push_back(name);
    }
  }
  return {Json{{"addresses", known}, {"unknown", unknown}}, exit_definite};
}

Json leaves(const std::string& printed, const std::vector<std::string>& nodes) {
  const std::set<std::string> wanted(nodes.begin(), nodes.end());
  Json out = Json::object();
  for (const auto& line : split(printed, '\n')) {
    std::string name;
    std::string members;
    bool leaf = false;
    for (const auto& field : split(line, ' ')) {
      const auto at = field.find('=');
      if (at == std::string::npos) continue;
      const std::string key = field.substr(0, at);
      const std::string value = field.substr(at + 1);
      if (key == "SwitchName" || key == "BlockName") name = value;
      if (key == "BlockName") leaf = true;
      if (key == "Level") leaf = value == "0";
      if (key == "Nodes") members = value;
    }
    if (!leaf || name.empty() || members.empty()) continue;
    const auto expanded = expand_hostlist(members);
    if (!expanded) continue;  // Slurm's own list: nothing here could do better with it
    Json here = Json::array();
    for (const auto& node : *expanded)
      if (wanted.empty() || wanted.contains(node)) here.push_back(node);
    if (!here.empty()) out[name] = here;
  }
  return out;
}

Answer topology(const std::vector<std::string>& nodes) {
  topo_info_response_msg_t* message = nullptr;
  if (compat::load_topology(&message) != SLURM_SUCCESS) return failed_call("loading the topology");
  char* printed = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&printed, &size);
  if (out == nullptr) return refused("no memory for the topology");
  compat::print_topology(out, message);
  std::fclose(out);
  slurm_free_topo_info_msg(message);
  const std::unique_ptr<char, decltype(&std::free)> owner(printed, &std::free);
  return {Json{{"leaves", leaves(std::string(printed, size), nodes)}}, exit_definite};
}

std::vector<std::string> state_words(std::uint32_t state) {
  std::vector<std::string> words;
  switch (state & NODE_STATE_BASE) {
    case NODE_STATE_DOWN:
      words.emplace_back("down");
      break;
    case NODE_STATE_IDLE:
      words.emplace_back("idle");
      break;
    case NODE_STATE_ALLOCATED:
      words.emplace_back("allocated");
      break;
    case NODE_STATE_ERROR:
      words.emplace_back("error");
      break;
    case NODE_STATE_MIXED:
      words.emplace_back("mixed");
      break;
    case NODE_STATE_FUTURE:
      words.emplace_back("future");
      break;
    default:
      words.emplace_back("unknown");
      break;
  }
  const std::pair<std::uint64_t, const char*> flags[] = {{NODE_STATE_DRAIN, "drain"},
                                                         {NODE_STATE_FAIL, "fail"},
                                                         {NODE_STATE_COMPLETING, "completing"},
                                                         {NODE_STATE_NO_RESPOND, "not_responding"},
                                                         {NODE_STATE_MAINT, "maintenance"},
                                                         {NODE_STATE_RES, "reserved"},
                                                         {NODE_STATE_CLOUD, "cloud"},
                                                         {NODE_STATE_POWERED_DOWN, "powered_down"},
                                                         {NODE_STATE_POWERING_UP, "powering_up"},
                                                         {NODE_STATE_POWERING_DOWN, "powering_down"},
                                                         {NODE_STATE_REBOOT_REQUESTED, "reboot_requested"},
                                                         {NODE_STATE_REBOOT_ISSUED, "reboot_issued"},
                                                         {NODE_STATE_PLANNED, "planned"},
                                                         {NODE_STATE_INVALID_REG, "invalid_registration"}};
  for (const auto& [flag, word] : flags)
    if ((state & flag) != 0) words.emplace_back(word);
  return words;
}

Answer node(const std::string& name) {
  Answer failed;
  NodeMessage message;
  const node_info_t* record = load_node(name, message, failed);
  if (record == nullptr) return failed;
  Partitions partitions;
  if (!partitions.load()) return failed_call("loading the partitions");
  Json out{{"node", name}, {"state", state_words(record->node_state)}, {"reason", text(record->reason)}};
  out["reason_time"] = record->reason_time;
  out["reason_uid"] = record->reason_uid;
  out["partitions"] = partitions_of(name, partitions.nodes());
  return {out, exit_definite};
}

Answer jobs_on(const std::string& name) {
  job_info_msg_t* message = nullptr;
  if (slurm_load_jobs(0, &message, SHOW_ALL) != SLURM_SUCCESS) return failed_call("loading the jobs");
  Json jobs = Json::array();
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    const auto& job = message->job_array[i];
    const auto base = job.job_state & JOB_STATE_BASE;
    const bool there = base == JOB_RUNNING || base == JOB_SUSPENDED || (job.job_state & JOB_COMPLETING) != 0;
    if (!there || job.nodes == nullptr) continue;
    const auto nodes = expand_hostlist(job.nodes);
    if (!nodes) continue;
    for (const auto& other : *nodes)
      if (other == name) jobs.push_back(compat::job_id(job));
  }
  slurm_free_job_info_msg(message);
  return {Json{{"jobs", jobs}}, exit_definite};
}

Answer drain(const std::string& name, const std::string& reason) {
  if (!is_ours(reason))
    return {Json{{"done", false}, {"why", fmt::format("a reason of ours starts with '{}'", our_prefix)}}, exit_usage};
  Answer failed;
  NodeMessage message;
  const node_info_t* record = load_node(name, message, failed);
  if (record == nullptr) return failed;
  const std::string before = text(record->reason);
  const bool drained = (record->node_state & NODE_STATE_DRAIN) != 0;
  Answer answer;
  if (!before.empty() && !is_ours(before)) {
    answer = refused(fmt::format("{} has a reason of another: '{}'", name, printable(before)));
  } else if (drained && before.empty()) {
    answer = refused(fmt::format("{} is drained by another, without a reason", name));
  } else {
    answer = set_state(name, NODE_STATE_DRAIN, reason);
    answer.object["replaced"] = drained;
    if (answer.object["done"] == true) return answer;
  }
  answer.object["out"] = drained;
  return answer;
}

Answer undrain(const std::string& name) {
  Answer failed;
  NodeMessage message;
  const node_info_t* record = load_node(name, message, failed);
  if (record == nullptr) return failed;
  const std::string before = text(record->reason);
  if ((record->node_state & NODE_STATE_DRAIN) == 0) return refused(fmt::format("{} is not drained", name));
  if (!is_ours(before))
    return refused(fmt::format("{} is drained by another: '{}'", name, printable(before)));
  return set_state(name, NODE_STATE_UNDRAIN, "");
}

Answer reasons(const std::string& prefix) {
  NodeMessage message;
  if (slurm_load_node(0, &message.message, SHOW_ALL) != SLURM_SUCCESS)
    return failed_call("loading the nodes");
  Partitions loaded;
  if (!loaded.load()) return failed_call("loading the partitions");
  const auto partitions = loaded.nodes();
  Json sizes = Json::object();
  for (const auto& [name, nodes] : partitions) sizes[name] = nodes.size();
  Json found = Json::array();
  for (const auto* record : message.nodes()) {
    if ((record->node_state & NODE_STATE_DRAIN) == 0 || !text(record->reason).starts_with(prefix)) continue;
    found.push_back(Json{{"node", record->name},
                         {"reason", record->reason},
                         {"time", record->reason_time},
                         {"partitions", partitions_of(record->name, partitions)}});
  }
  return {Json{{"nodes", found}, {"partitions", sizes}}, exit_definite};
}

}  // namespace nccl_check::slurm
