#include "commands/config_check.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "policy/config.hpp"
#include "worker/worker_process.hpp"

namespace nccl_check::commands {
namespace {

class Complaints {
 public:
  explicit Complaints(std::ostream& error) : error_(error) {}
  void add(const Error& e) {
    error_ << e.text() << '\n';
    ++count_;
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  std::ostream& error_;
  int count_ = 0;
};

// What root trusts must be root's, and writable by nobody else. One that is missing is made when it is
// needed, where `may_be_missing`.
void check_owner(const std::string& path, bool may_be_missing, Complaints& complaints) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && may_be_missing) return;
    return complaints.add({fmt::format("cannot be looked at: {}", std::strerror(errno)), path, ""});
  }
  if ((info.st_uid != 0 && info.st_uid != ::geteuid()) || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    complaints.add({fmt::format("is owned by uid {} with mode {:04o}, so others can write it", info.st_uid,
                                info.st_mode & 07777U),
                    path, "chown root, chmod go-w"});
}

std::string describe(const policy::Config& config) {
  return fmt::format("mode {}, when {}, {} of {}, deadline {}, {} limits of the site's own",
                     policy::name(config.mode), policy::name(config.when), verdict::name(config.collective),
                     format_size(config.size), format_seconds(config.deadline), config.limits.size());
}

}  // namespace

int config_check(const ConfigCheckArguments& arguments, const policy::Paths& paths,
                 const std::string& slurm_program, std::ostream& out, std::ostream& error) {
  Complaints complaints(error);
  const auto loaded = policy::load_config(arguments.config);
  for (const auto& e : loaded.errors) complaints.add(e);
  if (loaded.config) {
    const auto user = worker::find_identity(loaded.config->user);
    if (!user)
      complaints.add({"worker.user: " + user.error().text(), arguments.config,
                      fmt::format("useradd --system --shell /usr/sbin/nologin {}", loaded.config->user)});
    if (!loaded.config->library.empty() && !file_exists(loaded.config->library))
      complaints.add(
          {fmt::format("fabric.library: there is no {}", loaded.config->library), arguments.config, ""});
  }
  for (const auto& folder : {paths.run, paths.jobs(), paths.state}) check_owner(folder, true, complaints);
  if (slurm_program.empty()) {
    complaints.add({"nccl-check-slurm was not found", "",
                    "install it in libexec/nccl-check: nothing can be drained without it"});
  } else {
    check_owner(slurm_program, false, complaints);
  }
  if (file_exists(paths.disabled))
    out << fmt::format("{} exists: all checks on this node are switched off\n", paths.disabled);
  if (complaints.count() > 0) {
    error << fmt::format("{} errors", complaints.count())
          << (loaded.config ? "\n"
                            : "; until the file is mended, jobs are allowed and their check is untested\n");
    return 2;
  }
  out << fmt::format("{}: {}\n", arguments.config, describe(*loaded.config));
  return 0;
}

}  // namespace nccl_check::commands
