#pragma once
// All that differs between Slurm's releases (22.05 to 26.05), so that nothing else here asks which one it is.
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <cstdint>
#include <cstdio>
#include <string>

// Exported by every libslurm of these releases, in no header.
extern "C" char* slurm_conf_get_address(const char* node_name);
extern "C" void slurm_xfree(void** memory);

namespace nccl_check::slurm::compat {

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
inline slurm_step_id_t whole_job(std::uint32_t id) {
  slurm_step_id_t step{};
  step.job_id = id;
  step.step_id = NO_VAL;
  step.step_het_comp = NO_VAL;
  return step;
}
#else
inline std::uint32_t whole_job(std::uint32_t id) {
  return id;
}
#endif

inline std::uint32_t job_id(const slurm_job_info_t& job) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
  return job.step_id.job_id;
#else
  return job.job_id;
#endif
}

inline void set_job_id(job_desc_msg_t& description, std::uint32_t id) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
  description.step_id = slurm_step_id_t{};
  description.step_id.job_id = id;
  description.step_id.step_id = NO_VAL;
  description.step_id.step_het_comp = NO_VAL;
#else
  description.job_id = id;
#endif
}

inline int load_job(std::uint32_t id, job_info_msg_t** jobs) {
  return slurm_load_job(jobs, whole_job(id), SHOW_ALL);
}
inline int notify_job(std::uint32_t id, std::string text) {
  return slurm_notify_job(whole_job(id), text.data());
}
inline int requeue_job(std::uint32_t id, std::uint32_t flags) {
  return slurm_requeue(whole_job(id), flags);
}

// "Send it again in a moment": said of a job whose record is on its way into the database, until 24.05.
inline bool is_try_again([[maybe_unused]] int code) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 11, 0)
  return false;
#else
  return code == ESLURM_JOB_SETTING_DB_INX;
#endif
}

inline int load_topology(topo_info_response_msg_t** topology) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
  return slurm_load_topo(topology, nullptr);  // the default one of several
#else
  return slurm_load_topo(topology);
#endif
}

// As scontrol prints it: from 23.11 on what was loaded belongs to a plugin, and this is the only way to read
// it.
inline void print_topology(std::FILE* out, topo_info_response_msg_t* topology) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
  slurm_print_topo_info_msg(out, topology, nullptr, nullptr, 1);
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
  slurm_print_topo_info_msg(out, topology, nullptr, 1);
#else
  slurm_print_topo_info_msg(out, topology, 1);
#endif
}

}  // namespace nccl_check::slurm::compat
