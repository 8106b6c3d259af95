#include "fake_slurm.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace nccl_check::fake {

Slurm& slurm() {
  static Slurm one;
  return one;
}

void reset() {
  slurm() = Slurm{};
}

bool Slurm::logged(const std::string& part) const {
  return all_log().find(part) != std::string::npos;
}

std::string Slurm::all_log() const {
  std::string all;
  for (const auto& line : log) all += line + "\n";
  return all;
}

Plugin::Plugin(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  std::fprintf(stderr, "cannot load %s: %s\n", path.c_str(), ::dlerror());
  std::exit(1);
}

bool Plugin::has(const std::string& hook) const {
  return ::dlsym(handle_, hook.c_str()) != nullptr;
}

Hook Plugin::hook(const std::string& name) const {
  auto function = reinterpret_cast<Hook>(::dlsym(handle_, name.c_str()));
  if (function == nullptr) throw std::logic_error(name + " is not exported");
  return function;
}

int Plugin::call(const std::string& name, std::vector<std::string> arguments) const {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int handle = 0;  // opaque to the plugin
  return hook(name)(reinterpret_cast<spank_t>(&handle), static_cast<int>(arguments.size()), argv.data());
}

namespace {

void record(const char* level, const char* format, va_list arguments) {
  char text[8192];
  std::vsnprintf(text, sizeof text, format, arguments);
  if (slurm().log_to_stderr) {
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text, std::strlen(text));
  } else {
    slurm().log.push_back(std::string(level) + text);
  }
}

}  // namespace
}  // namespace nccl_check::fake

using nccl_check::fake::slurm;

namespace {
constexpr auto done = static_cast<spank_err_t>(ESPANK_SUCCESS);  // a macro, of int
}  // namespace

extern "C" {

#define NCCL_CHECK_FAKE_LOG(name, level)                \
  void name(const char* format, ...) {                  \
    va_list arguments;                                  \
    va_start(arguments, format);                        \
    nccl_check::fake::record(level, format, arguments); \
    va_end(arguments);                                  \
  }
NCCL_CHECK_FAKE_LOG(slurm_error, "error: ")
NCCL_CHECK_FAKE_LOG(slurm_info, "info: ")
NCCL_CHECK_FAKE_LOG(slurm_spank_log, "tell: ")
#undef NCCL_CHECK_FAKE_LOG

spank_context_t spank_context(void) {
  return slurm().context;
}

const char* spank_strerror(spank_err_t code) {
  return code == done ? "Success" : "Failure";
}

spank_err_t spank_option_register(spank_t, struct spank_option* option) {
  slurm().options[option->name] = option->cb;
  return done;
}

spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
  if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  va_list out;
  va_start(out, item);
  spank_err_t code = done;
  switch (item) {
    case S_JOB_ID:
      *va_arg(out, std::uint32_t*) = slurm().job;
      break;
    case S_JOB_STEPID:
      *va_arg(out, std::uint32_t*) = slurm().step;
      break;
    case S_JOB_NODEID:
      *va_arg(out, std::uint32_t*) = slurm().node_rank;
      break;
    case S_JOB_LOCAL_TASK_COUNT:
      *va_arg(out, std::uint32_t*) = slurm().local_tasks;
      break;
    case S_JOB_UID:
      *va_arg(out, uid_t*) = slurm().user;
      break;
    case S_JOB_GID:
      *va_arg(out, gid_t*) = slurm().group;
      break;
    case S_TASK_ID:
      *va_arg(out, int*) = slurm().task;
      break;
    case S_JOB_ENV: {
      static std::vector<std::string> texts;
      static std::vector<char*> list;
      texts.clear();
      list.clear();
      for (const auto& [name, value] : slurm().environment) texts.push_back(name + "=" + value);
      for (auto& text : texts) list.push_back(text.data());
      list.push_back(nullptr);
      *va_arg(out, char***) = list.data();
      break;
    }
    default:
      code = ESPANK_BAD_ARG;
  }
  va_end(out);
  return code;
}

spank_err_t spank_getenv(spank_t, const char* name, char* buffer, int length) {
  if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  const auto at = slurm().environment.find(std::string_view(name));
  if (at == slurm().environment.end()) return ESPANK_ENV_NOEXIST;
  std::snprintf(buffer, static_cast<std::size_t>(length), "%s", at->second.c_str());
  return at->second.size() < static_cast<std::size_t>(length) ? done : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t, const char* name, const char* value, int overwrite) {
  if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  if (overwrite == 0 && slurm().environment.contains(name)) return ESPANK_ENV_EXISTS;
  slurm().environment[name] = value;
  return done;
}

spank_err_t spank_unsetenv(spank_t, const char* name) {
  if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  const auto at = slurm().environment.find(std::string_view(name));
  if (at == slurm().environment.end()) return done;
  slurm().environment.erase(at);
  return done;
}

}  // extern "C"
