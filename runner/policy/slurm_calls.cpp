#include "policy/slurm_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/process.hpp"
#include "base/text.hpp"
#include "policy/state/locked_file.hpp"

namespace nccl_check::policy {
namespace {

constexpr std::size_t most_answer = 16U << 20U;  // the names of 65,536 nodes fit
constexpr std::size_t most_names = 65'536;
constexpr std::size_t longest_name = 256;
constexpr std::size_t longest_text = 4096;

template <class T>
Answer<T> no_answer(std::string why) {
  return {Got::no_answer, std::move(why), {}};
}

bool flag(const Json& object, const char* key, bool& out) {
  const Json* found = member(object, key);
  if (found == nullptr || !found->is_boolean()) return false;
  out = found->get<bool>();
  return true;
}

// An object that says "done": false is a refusal, or no answer, whatever the call was.
template <class T, class Read>
Answer<T> read(const std::string& text, Read read_value) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return no_answer<T>("nccl-check-slurm printed no JSON object");
  Answer<T> answer;
  bool done = true;
  bool answered = true;
  flag(object, "done", done);
  flag(object, "answered", answered);
  if (!done) {
    answer.got = answered ? Got::refused : Got::no_answer;
    if (!take(object, "why", longest_text, answer.why)) answer.why = "no reason is given";
    answer.why = printable(answer.why, longest_text);
    if (answered) read_value(object, answer.value);
    return answer;
  }
  if (!read_value(object, answer.value))
    return no_answer<T>("nccl-check-slurm printed an object that is not as expected");
  answer.got = Got::done;
  return answer;
}

// Host lists as arguments: a single one may not exceed 128 KiB, and names that don't compress get there.
void add_nodes(std::vector<std::string>& arguments, const std::vector<std::string>& nodes) {
  constexpr std::ptrdiff_t at_once = 1000;
  for (auto first = nodes.begin(); first != nodes.end();) {
    const auto last = nodes.end() - first > at_once ? first + at_once : nodes.end();
    arguments.push_back(compress_hostlist({first, last}));
    first = last;
  }
}

class Children : public Slurm {
 public:
  Children(std::string program, std::vector<std::string> environment)
      : program_(std::move(program)), environment_(std::move(environment)) {}

  Answer<std::map<std::string, std::string>> addresses(const std::vector<std::string>& nodes, bool ask,
                                                       Deadline deadline) override {
    std::vector<std::string> arguments{"address"};
    if (ask) arguments.emplace_back("--rpc");
    add_nodes(arguments, nodes);
    return call<std::map<std::string, std::string>>(arguments, deadline, wire::addresses);
  }
  Answer<std::map<std::string, std::vector<std::string>>> leaves(const std::vector<std::string>& nodes,
                                                                 Deadline deadline) override {
    std::vector<std::string> arguments{"topology"};
    add_nodes(arguments, nodes);
    return call<std::map<std::string, std::vector<std::string>>>(arguments, deadline, wire::leaves);
  }
  Answer<NodeState> node(const std::string& name, Deadline deadline) override {
    return call<NodeState>({"node", name}, deadline, wire::node);
  }
  Answer<std::vector<std::uint32_t>> jobs_on(const std::string& node, Deadline deadline) override {
    return call<std::vector<std::uint32_t>>({"jobs-on", node}, deadline, wire::jobs_on);
  }
  Answer<Drained> drain(const std::string& node, const std::string& reason, Deadline deadline) override {
    return call<Drained>({"drain", node, reason}, deadline, wire::drain);
  }
  Answer<Unit> undrain(const std::string& node, Deadline deadline) override {
    const auto answer = call<Drained>({"undrain", node}, deadline, wire::drain);
    return {answer.got, answer.why, {}};
  }
  Answer<Reasons> reasons(Deadline deadline) override {
    return call<Reasons>({"reasons", reason_prefix}, deadline, wire::reasons);
  }
  Answer<JobFailed> fail_job(const JobFailure& failure, Deadline deadline) override {
    std::vector<std::string> arguments{"fail-job", fmt::format("{}", failure.job), "--restart",
                                       fmt::format("{}", failure.restart)};
    const auto add = [&](const char* option, const std::string& value) {
      if (!value.empty()) arguments.push_back(fmt::format("--{}={}", option, value));
    };
    add("requeued", failure.told_if_requeued);
    add("held", failure.told_if_held);
    add("cancelled", failure.told_if_cancelled);
    add("avoid", compress_hostlist(failure.avoid));
    if (failure.hold) arguments.emplace_back("--hold");
    return call<JobFailed>(arguments, deadline, wire::fail_job);
  }

 private:
  template <class T>
  Answer<T> call(const std::vector<std::string>& arguments, Deadline deadline,
                 Answer<T> (*understand)(const std::string&)) {
    if (program_.empty()) return no_answer<T>("nccl-check-slurm was not found beside this program");
    Command command;
    command.program = program_;
    command.arguments = arguments;
    command.environment = environment_;
    const auto finished = run(std::move(command), "", deadline, most_answer);
    if (!finished) return no_answer<T>(finished.error().text());
    if (finished->timed_out)
      return no_answer<T>(fmt::format("slurmctld did not answer '{}' in time", arguments.front()));
    // 0 and 3 come with an object that says which it is.
    if (finished->exit.signal == 0 && (finished->exit.code == 0 || finished->exit.code == 3) &&
        !finished->out.empty())
      return understand(finished->out);
    return no_answer<T>(fmt::format("nccl-check-slurm {}: {}: {}", arguments.front(), finished->exit.text(),
                                    printable(trim(finished->error), 400)));
  }

  std::string program_;
  std::vector<std::string> environment_;
};

}  // namespace

bool NodeState::is(const std::string& word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::unique_ptr<Slurm> make_slurm(std::string program, std::vector<std::string> environment) {
  return std::make_unique<Children>(std::move(program), std::move(environment));
}

std::vector<std::string> slurm_environment(const char* const* environment) {
  std::vector<std::string> out{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"};
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (std::strncmp(*environment, "SLURM_CONF=", 11) == 0) out.emplace_back(*environment);
  return out;
}

namespace wire {

Answer<NodeState> node(const std::string& json) {
  return read<NodeState>(json, [](const Json& object, NodeState& out) {
    return take(object, "state", 64, longest_name, out.words) &&
           take(object, "reason", longest_text, out.reason) &&
           take(object, "reason_time", 0, INT64_MAX, out.reason_time) &&
           take(object, "partitions", most_names, longest_name, out.partitions);
  });
}

Answer<Drained> drain(const std::string& json) {
  return read<Drained>(json, [](const Json& object, Drained& out) {
    flag(object, "replaced", out.replaced);
    bool done = false;
    if (!flag(object, "done", done)) return false;
    if (!flag(object, "out", out.out)) out.out = done;
    return true;
  });
}

Answer<Reasons> reasons(const std::string& json) {
  return read<Reasons>(json, [](const Json& object, Reasons& out) {
    const auto* nodes = array_member(object, "nodes", most_names);
    const auto* partitions = object_member(object, "partitions", most_names);
    if (nodes == nullptr || partitions == nullptr) return false;
    for (const auto& entry : *nodes) {
      Reason reason;
      if (!take(entry, "node", longest_name, reason.node) ||
          !take(entry, "reason", longest_text, reason.text) ||
          !take(entry, "time", 0, INT64_MAX, reason.time) ||
          !take(entry, "partitions", most_names, longest_name, reason.partitions))
        return false;
      out.nodes.push_back(std::move(reason));
    }
    for (const auto& [name, size] : *partitions) {
      if (!size.is_number_unsigned() || size.get<std::uint64_t>() > 10'000'000) return false;
      out.partitions[name] = static_cast<int>(size.get<std::uint64_t>());
    }
    return true;
  });
}

Answer<JobFailed> fail_job(const std::string& json) {
  return read<JobFailed>(json, [](const Json& object, JobFailed& out) {
    std::string outcome;
    if (!take(object, "outcome", 32, outcome) || !flag(object, "told", out.told) ||
        !flag(object, "avoided", out.avoided) || !take(object, "notes", 64, longest_text, out.notes))
      return false;
    return verdict::parse(outcome, out.fate) && out.fate != Fate::runs;  // that is no outcome of failing it
  });
}

Answer<std::map<std::string, std::string>> addresses(const std::string& json) {
  return read<std::map<std::string, std::string>>(json, [](const Json& object, auto& out) {
    const auto* found = object_member(object, "addresses", most_names);
    if (found == nullptr) return false;
    for (const auto& [name, address] : *found)
      if (name.size() > longest_name || !take(object.at("addresses"), name.c_str(), longest_name, out[name]))
        return false;
    return true;
  });
}

Answer<std::map<std::string, std::vector<std::string>>> leaves(const std::string& json) {
  return read<std::map<std::string, std::vector<std::string>>>(json, [](const Json& object, auto& out) {
    const auto* found = object_member(object, "leaves", most_names);
    if (found == nullptr) return false;
    for (const auto& [leaf, nodes] : *found)
      if (!take(object.at("leaves"), leaf.c_str(), most_names, longest_name, out[leaf])) return false;
    return true;
  });
}

Answer<std::vector<std::uint32_t>> jobs_on(const std::string& json) {
  return read<std::vector<std::uint32_t>>(json, [](const Json& object, auto& out) {
    const auto* jobs = array_member(object, "jobs", most_names);
    if (jobs == nullptr) return false;
    for (const auto& job : *jobs) {
      const auto* id = job.template get_ptr<const std::uint64_t*>();
      if (id == nullptr || *id > UINT32_MAX) return false;
      out.push_back(static_cast<std::uint32_t>(*id));
    }
    return true;
  });
}

}  // namespace wire

}  // namespace nccl_check::policy
