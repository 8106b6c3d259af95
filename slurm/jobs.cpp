#include "slurm/jobs.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/text.hpp"
#include "slurm/compat.hpp"
#include "slurm/nodes.hpp"

namespace nccl_check::slurm {
namespace {

constexpr std::size_t most_comment = 4096;
constexpr const char* comment_joint = " | ";

// What this program needs of a job, free of Slurm's message.
struct Job {
  std::uint32_t id = 0;
  std::uint32_t state = 0;
  std::uint32_t restart = 0;
  std::uint32_t array = 0;  // the array's own id; 0: not of an array
  std::uint32_t task = NO_VAL;
  std::uint32_t het_leader = 0;  // 0: not a het job
  bool batch = false;
  bool may_requeue = false;
  std::string required;
  std::string excluded;
  std::string comment;

  [[nodiscard]] bool runs() const {
    const auto base = state & JOB_STATE_BASE;
    return (base == JOB_RUNNING || base == JOB_SUSPENDED) && (state & JOB_COMPLETING) == 0;
  }
  [[nodiscard]] bool pends() const { return (state & JOB_STATE_BASE) == JOB_PENDING; }
  // Requeue takes a het job by its leader only, and then all of it.
  [[nodiscard]] std::uint32_t requeue_id() const { return het_leader != 0 ? het_leader : id; }
  // A task's numeric id means the whole array to Slurm's cancel, or nothing: it wants ARRAY_TASK.
  [[nodiscard]] std::string cancel_id() const {
    if (task != NO_VAL && array != 0) return fmt::format("{}_{}", array, task);
    return fmt::format("{}", requeue_id());
  }
};

const char* state_word(std::uint32_t state) {
  if ((state & JOB_COMPLETING) != 0) return "completing";
  switch (state & JOB_STATE_BASE) {
    case JOB_PENDING:
      return "pending";
    case JOB_RUNNING:
      return "running";
    case JOB_SUSPENDED:
      return "suspended";
    default:
      return "ended";
  }
}

std::string text(const char* from) {
  return from == nullptr ? "" : from;
}

Job copy(const slurm_job_info_t& from) {
  Job job;
  job.id = compat::job_id(from);
  job.state = from.job_state;
  job.restart = from.restart_cnt;
  job.array = from.array_job_id;
  job.task = from.array_task_id;
  job.het_leader = from.het_job_id == NO_VAL ? 0 : from.het_job_id;
  job.batch = from.batch_flag != 0;
  job.may_requeue = from.requeue != 0;
  job.required = text(from.req_nodes);
  job.excluded = text(from.exc_nodes);
  job.comment = text(from.admin_comment);
  return job;
}

// The records that slurmctld gives for an id: a het leader's brings all components, an array's all tasks.
// False: errno.
bool load(std::uint32_t id, std::vector<Job>& jobs) {
  job_info_msg_t* message = nullptr;
  if (compat::load_job(id, &message) != SLURM_SUCCESS) return false;
  jobs.clear();
  for (std::uint32_t i = 0; i < message->record_count; ++i) jobs.push_back(copy(message->job_array[i]));
  slurm_free_job_info_msg(message);
  return true;
}

const Job* find(const std::vector<Job>& jobs, std::uint32_t id) {
  const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const Job& job) { return job.id == id; });
  return found == jobs.end() ? nullptr : &*found;
}

Answer outcome(const char* what, Json notes) {
  return {Json{{"outcome", what}, {"told", false}, {"avoided", false}, {"notes", std::move(notes)}},
          exit_definite};
}

// An update that slurmctld may ask to send again ("setting the database index").
bool update(job_desc_msg_t& description) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (slurm_update_job(&description) == SLURM_SUCCESS) return true;
    if (!compat::is_try_again(errno)) return false;
    ::poll(nullptr, 0, 100);
  }
  return false;
}

bool comment(const Job& job, const std::string& told, Json& notes) {
  if (told.empty()) return true;
  std::string whole = merge_comment(job.comment, told);
  job_desc_msg_t description;
  slurm_init_job_desc_msg(&description);
  compat::set_job_id(description, job.id);
  description.admin_comment = whole.data();
  if (update(description)) return true;
  notes.push_back(fmt::format("AdminComment: {}", slurm_strerror(errno)));
  return false;
}

// Of every component: Slurm gives each its nodes by itself.
bool exclude(std::uint32_t id, const std::vector<std::string>& avoid, Json& notes) {
  std::vector<Job> jobs;
  if (!load(id, jobs)) {
    notes.push_back(fmt::format("excluding {}: {}", compress_hostlist(avoid), slurm_strerror(errno)));
    return false;
  }
  const Job* first = find(jobs, id);
  const bool het = first != nullptr && first->het_leader != 0;
  bool all = true;
  for (const auto& job : jobs) {
    if (!het && job.id != id) continue;  // the other tasks of an array
    std::string list = merge_hostlist(job.excluded, avoid);
    job_desc_msg_t description;
    slurm_init_job_desc_msg(&description);
    compat::set_job_id(description, job.id);
    description.exc_nodes = list.data();
    if (update(description)) continue;
    notes.push_back(
        fmt::format("excluding {} of job {}: {}", compress_hostlist(avoid), job.id, slurm_strerror(errno)));
    all = false;
  }
  return all;
}

bool requires_any(const Job& job, const std::vector<std::string>& nodes) {
  const auto required = expand_hostlist(job.required);
  if (job.required.empty() || !required) return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](const std::string& node) {
    return std::find(required->begin(), required->end(), node) != required->end();
  });
}

}  // namespace

std::string merge_comment(const std::string& before, const std::string& ours) {
  std::string flat = ours;
  while (!flat.empty() && flat.back() == '\n') flat.pop_back();
  for (std::size_t at = flat.find('\n'); at != std::string::npos; at = flat.find('\n', at))
    flat.replace(at, 1, comment_joint);
  flat = printable(flat, most_comment);
  std::string kept = before;
  if (kept.starts_with(our_prefix)) kept.clear();
  if (const auto at = kept.find(std::string(comment_joint) + our_prefix); at != std::string::npos)
    kept.resize(at);
  return kept.empty() ? flat : kept + comment_joint + flat;
}

std::string merge_hostlist(const std::string& before, const std::vector<std::string>& more) {
  std::vector<std::string> names;
  if (!before.empty()) {
    const auto had = expand_hostlist(before);
    if (!had) return before + "," + compress_hostlist(more);
    names = *had;
  }
  for (const auto& name : more)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return compress_hostlist(names);
}

Answer fail_job(const FailJob& request) {
  std::vector<Job> jobs;
  if (!load(request.job, jobs)) {
    if (errno == ESLURM_INVALID_JOB_ID) return outcome("gone", {"slurmctld does not know the job"});
    return failed_call("loading the job");
  }
  const Job* job = find(jobs, request.job);
  if (job == nullptr) return outcome("gone", {"slurmctld has no record of that very id"});
  if (job->restart != request.restart || !job->runs()) {
    Answer gone = outcome("gone", {fmt::format("run {} is meant, the job is at run {} and {}",
                                               request.restart, job->restart, state_word(job->state))});
    // A peer's gate requeued it: its node and ours are both to be avoided.
    if (!request.avoid.empty() && job->batch && job->pends() && job->restart == request.restart + 1)
      gone.object["avoided"] = exclude(job->requeue_id(), request.avoid, gone.object["notes"]);
    return gone;
  }

  const bool requeue = job->batch && job->may_requeue;
  const bool hold = requeue && (request.hold || requires_any(*job, request.avoid));
  const std::string& told =
      hold ? request.told_if_held : (requeue ? request.told_if_requeued : request.told_if_cancelled);
  Json notes = Json::array();
  bool heard = true;
  // srun and salloc print it; a batch job has nobody listening yet.
  if (!job->batch && !told.empty() && compat::notify_job(job->requeue_id(), told) != SLURM_SUCCESS) {
    notes.push_back(fmt::format("notify: {}", slurm_strerror(errno)));
    heard = false;
  }
  // Before the job is failed: slurmctld changes no comment of a job that has ended.
  heard = comment(*job, told, notes) && heard;

  const char* done = "cancelled";
  if (requeue) {
    // JOB_RUNNING: only a run in progress, never one that ended or was requeued meanwhile.
    const std::uint32_t flags = JOB_RUNNING | (hold ? static_cast<std::uint32_t>(JOB_REQUEUE_HOLD) : 0U);
    if (compat::requeue_job(job->requeue_id(), flags) == SLURM_SUCCESS) {
      done = hold ? "held" : "requeued";
    } else if (!answered(errno)) {
      return failed_call("requeueing the job");
    } else if (errno == ESLURM_DISABLED || errno == ESLURM_BATCH_ONLY) {
      notes.push_back(fmt::format("not requeued: {}", slurm_strerror(errno)));
    } else {
      return failed_call("requeueing the job");
    }
  }
  if (std::string_view(done) == "cancelled" &&
      slurm_kill_job2(job->cancel_id().c_str(), SIGKILL, 0, nullptr) != SLURM_SUCCESS) {
    if (errno != ESLURM_ALREADY_DONE && errno != ESLURM_INVALID_JOB_ID)
      return failed_call("cancelling the job");
    done = "gone";
  }
  Answer answer = outcome(done, notes);
  answer.object["told"] = heard;
  if (std::string_view(done) == "requeued" && !request.avoid.empty())
    answer.object["avoided"] = exclude(job->requeue_id(), request.avoid, answer.object["notes"]);
  return answer;
}

}  // namespace nccl_check::slurm
