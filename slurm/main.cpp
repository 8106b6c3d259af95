// nccl-check-slurm: the only program here that links libslurm, whose calls have no deadline of their own. One
// call a start; whoever needs an answer starts it, waits as long as it can, and kills it.
#include <slurm/slurm.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "slurm/answer.hpp"
#include "slurm/jobs.hpp"
#include "slurm/nodes.hpp"

#ifdef __SANITIZE_ADDRESS__
// libslurm loses some of what it reads from slurm.conf.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libslurm";
}
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
#endif

namespace {

using nccl_check::expand_hostlist;
using nccl_check::slurm::Answer;

// Names come from slurm.conf or a job's own variables; they are checked all the same, since this runs as
// root.
std::string host_list(const std::string& list) {
  const auto names = expand_hostlist(list);
  return names ? "" : names.error().text();
}

std::string host_name(const std::string& name) {
  const bool plain =
      !name.empty() && name.size() <= 256 &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
          std::string::npos;
  return plain ? "" : "'" + nccl_check::printable(name) + "' is not a node's name";
}

std::vector<std::string> expand(const std::vector<std::string>& lists) {
  std::vector<std::string> names;
  for (const auto& list : lists) {
    const auto some = expand_hostlist(list);
    if (some) names.insert(names.end(), some->begin(), some->end());
  }
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace nccl_check::slurm;
  CLI::App app{
      "One call to Slurm, one JSON object. Exit 0: answered; 2: usage; 3: no answer, it may have happened."};
  app.require_subcommand(1);
  app.allow_extras(false);
  std::function<Answer()> call;
  std::string name;
  std::string reason;
  std::vector<std::string> lists;
  std::vector<std::string> avoid;
  bool ask = false;
  FailJob request;

  auto* address = app.add_subcommand("address", "NodeAddr of nodes, from slurm.conf");
  address->add_option("NODE", lists, "names or host lists")->required()->check(host_list);
  address->add_flag("--rpc", ask, "ask slurmctld for nodes that slurm.conf does not name");
  address->callback([&] { call = [&] { return addresses(expand(lists), ask); }; });

  auto* leaf = app.add_subcommand("topology", "the leaf switch of each node");
  leaf->add_option("NODE", lists, "names or host lists; none: all nodes")->check(host_list);
  leaf->callback([&] { call = [&] { return topology(expand(lists)); }; });

  const auto about_node = [&](const char* word, const char* what) {
    auto* command = app.add_subcommand(word, what);
    command->add_option("NODE", name, "a node's name")->required()->check(host_name);
    return command;
  };
  about_node("node", "a node's state and reason")->callback([&] { call = [&] { return node(name); }; });
  about_node("jobs-on", "the jobs that run or complete on a node")->callback([&] {
    call = [&] { return jobs_on(name); };
  });
  about_node("undrain", "take back our own drain")->callback([&] { call = [&] { return undrain(name); }; });
  auto* set_drain = about_node("drain", "drain a node with a reason of ours, never over another's");
  set_drain->add_option("REASON", reason, "starts with 'nccl-check:'")->required();
  set_drain->callback([&] { call = [&] { return drain(name, reason); }; });

  auto* list = app.add_subcommand("reasons", "drained nodes whose reason starts so");
  list->add_option("PREFIX", reason, "such as 'nccl-check:'")->required();
  list->callback([&] { call = [&] { return reasons(reason); }; });

  auto* fail = app.add_subcommand("fail-job", "tell a job's user, then requeue, hold or cancel the job");
  fail->add_option("JOBID", request.job, "numeric, as SLURM_JOB_ID of the prolog")
      ->required()
      ->check(CLI::Range(1U, 0xfffffffdU));
  fail->add_option("--restart", request.restart, "the job's SLURM_JOB_RESTART_COUNT (0)");
  fail->add_option("--requeued", request.told_if_requeued, "what the user reads where the job is requeued");
  fail->add_option("--held", request.told_if_held, "what the user reads where it is requeued and held");
  fail->add_option("--cancelled", request.told_if_cancelled, "what the user reads where it is cancelled");
  fail->add_option("--avoid", avoid, "nodes that the requeued job shall not get again")->check(host_list);
  fail->add_flag("--hold", request.hold, "requeue it held");
  fail->callback([&] {
    call = [&] {
      request.avoid = expand(avoid);
      return fail_job(request);
    };
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);  // help is no error
    return code == 0 ? 0 : exit_usage;
  }
  try {
    slurm_init(nullptr);
    const Answer answer = call();
    std::cout << answer.object.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    return std::cout.good() ? answer.exit_code : exit_no_answer;
  } catch (const std::exception& error) {
    std::cerr << "nccl-check-slurm: " << error.what() << '\n';
    return exit_no_answer;
  }
}
