#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "environment/builtin.hpp"

namespace nccl_check::environment {
namespace {

constexpr const char* slingshot_source = "built in: HPE's and Olivia's settings for Slingshot";
constexpr const char* plugin_source = "built in: aws-ofi-nccl carries NCCL over libfabric";
constexpr const char* efa_source = "built in: aws-ofi-nccl#44, PR#292";

struct Setting {
  const char* variable;
  const char* value;
  const char* why;
};
constexpr std::array<Setting, 7> slingshot{
    {{"NCCL_CROSS_NIC", "1", "any NIC reaches any other over Slingshot"},
     {"NCCL_NET_GDR_LEVEL", "PHB", "GPUs and NICs of one host bridge talk directly"},
     {"FI_MR_CACHE_MONITOR", "userfaultfd", "memhooks miss what is freed, and may hang"},
     {"FI_CXI_DISABLE_HOST_REGISTER", "1", "registering with CUDA inside libfabric can deadlock with NCCL"},
     {"FI_CXI_DEFAULT_CQ_SIZE", "131072", "NCCL has more in flight than the default queue holds"},
     {"FI_CXI_DEFAULT_TX_SIZE", "2048", "as many sends at once (CSCS: 16384)"},
     {"FI_CXI_RX_MATCH_MODE", "hybrid", "falls back to software when the NIC's match entries run out"}}};

void set_plugin(const node::Facts& facts, const Situation& situation, Plan& plan) {
  const auto& plugin = facts.system.ofi_plugin;
  if (plugin.path.empty()) {
    plan.left_out.push_back(
        {"NCCL_NET_PLUGIN",
         fmt::format("{} needs aws-ofi-nccl, which is in none of the usual places here: load its "
                     "module, or name its folder in a rule",
                     node::name(facts.fabric))});
    plan.left_out.push_back({"NCCL_NET", "the plugin was not found"});
    return;
  }
  const auto folder = plugin.path.substr(0, plugin.path.rfind('/'));
  const auto file = plugin.path.substr(folder.size() + 1);
  // libnccl-net-<x>.so: NCCL before 2.21 takes the <x> alone, later ones too.
  const auto word = file.substr(12, file.size() - 12 - 3);
  plan.decisions.push_back({"NCCL_NET_PLUGIN", Change::set, word, plugin.path, plugin_source, false});
  if (folder != "/usr/lib64" && folder.find("-linux-gnu") == folder.npos)
    plan.decisions.push_back(
        {"LD_LIBRARY_PATH", Change::prepend, folder, "where the plugin stands", plugin_source, false});
  if (!situation.nodes)
    plan.left_out.push_back(
        {"NCCL_NET", "would fail on one node without a VNI, and the job's number of nodes is not known"});
  else if (*situation.nodes < 2)
    plan.left_out.push_back({"NCCL_NET", "the job has one node: forced, it would fail without a VNI"});
  else
    // The name to 1.12; newer ones still take it from the environment.
    plan.decisions.push_back({"NCCL_NET", Change::set, "AWS Libfabric",
                              "without the plugin NCCL fails, rather than to go over sockets in silence",
                              plugin_source, false});
}

bool has_model(const node::Facts& facts, const char* part) {
  return facts.gpus && std::any_of(facts.gpus->begin(), facts.gpus->end(), [&](const auto& gpu) {
           return gpu.model.find(part) != std::string::npos;
         });
}

// Wrong values and 0.6 to 7 GB/s were seen with LL128 on GH200 over Slingshot, from NCCL 2.27.3 on.
void set_ll128(const node::Facts& facts, const Situation& situation, Plan& plan) {
  constexpr Version first{2, 27, 3};
  if (!has_model(facts, "GH200") || (situation.nccl && *situation.nccl < first)) return;
  plan.decisions.push_back({"NCCL_LL128_C2C", Change::set, "0",
                            fmt::format("wrong data with LL128 on GH200 over Slingshot since NCCL 2.27.3{}",
                                        situation.nccl ? "" : " (this one's version is not known)"),
                            "built in: public reports on GH200 and Slingshot", false});
}

bool older_than_1_18(const std::string& version) {
  const auto parsed = parse_version(version);
  return parsed && *parsed < Version{1, 18, 0};
}

}  // namespace

void set_slingshot(const node::Facts& facts, const Situation& situation, Plan& plan) {
  set_plugin(facts, situation, plan);
  for (const auto& s : slingshot)
    plan.decisions.push_back({s.variable, Change::set, s.value, s.why, slingshot_source, false});
  set_ll128(facts, situation, plan);
  plan.left_out.push_back({"FI_CXI_RDZV_PROTO",
                           "alt_read, with FI_CXI_RDZV_EAGER_SIZE, _THRESHOLD and _GET_MIN=0, needs `srun "
                           "--network=disable_rdzv_get`: for a rule of the site's"});
  plan.left_out.push_back({"NCCL_IB_HCA", "Slingshot's NICs are no verbs HCAs"});
}

void set_efa(const node::Facts& facts, const Situation& situation, Plan& plan) {
  set_plugin(facts, situation, plan);
  plan.left_out.push_back({"NCCL_IB_HCA", "EFA is no verbs HCA for NCCL's own InfiniBand transport"});
  const auto& version = facts.system.libfabric.version;
  if (older_than_1_18(version))
    plan.decisions.push_back({"FI_EFA_USE_DEVICE_RDMA", Change::set, "1",
                              fmt::format("libfabric {} does not use RDMA by itself", version),
                              "built in: libfabric does so since 1.18", false});
  else
    plan.left_out.push_back(
        {"FI_EFA_USE_DEVICE_RDMA", version.empty()
                                       ? "only matters before libfabric 1.18, and its version is not known"
                                       : fmt::format("libfabric {} uses RDMA by itself", version)});
  if (facts.system.limits.huge_pages_free == 0U)
    plan.decisions.push_back({"FI_EFA_USE_HUGE_PAGE", Change::set, "0",
                              "no huge page is free: a fork would run out of memory", efa_source, false});
}

}  // namespace nccl_check::environment
