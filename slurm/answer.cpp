#include "slurm/answer.hpp"

#include <fmt/format.h>
#include <slurm/slurm_errno.h>

#include <cerrno>

namespace nccl_check::slurm {

// slurm_errno.h's ranges: below 1000 the system's, 1000 to 1899 messages to and from slurmctld, 5000 sockets,
// 6000 the authentication on this side; the rest are answers of slurmctld.
bool answered(int code) {
  return code >= 1900 && !(code >= 5000 && code < 7000);
}

Answer failed_call(const char* doing) {
  const int code = errno;
  Answer answer;
  answer.object["done"] = false;
  answer.object["answered"] = answered(code);
  answer.object["code"] = code;
  answer.object["why"] = fmt::format("{}: {}", doing, slurm_strerror(code));
  answer.exit_code = answered(code) ? exit_definite : exit_no_answer;
  return answer;
}

Answer refused(const std::string& why) {
  return {Json{{"done", false}, {"answered", true}, {"why", why}}, exit_definite};
}

}  // namespace nccl_check::slurm
