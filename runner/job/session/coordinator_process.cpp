#include "job/session/coordinator_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "base/text.hpp"
#include "job/rendezvous/munge_credentials.hpp"
#include "job/rendezvous/server.hpp"

namespace nccl_check::rendezvous {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobIdentity, cluster, job, step, restart)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PortRange, first, last)
}  // namespace nccl_check::rendezvous

namespace nccl_check::job {
namespace {

using nlohmann::json;

constexpr int settings_fd = 3;
constexpr std::size_t most_settings = 8U << 20U;  // 65,536 names
constexpr auto topology_limit = Milliseconds(1000);
constexpr auto goodbye_limit = Milliseconds(500);
// After the verdict: the culprits act, one of them fails the job.
constexpr auto after_verdict = std::chrono::seconds(4);

}  // namespace

static void to_json(json& j, const CoordinatorSettings& v) {
  j = {{"nodes", v.nodes},
       {"node_scope", v.node_scope},
       {"job_scope", v.job_scope},
       {"collective", verdict::name(v.collective)},
       {"size", v.size},
       {"most_bytes", v.most_bytes},
       {"wanted_busbw", v.wanted_busbw},
       {"budget_ms", v.budget_ms},
       {"join_ms", v.join_ms}};
}
static void from_json(const json& j, CoordinatorSettings& v) {
  j.at("nodes").get_to(v.nodes);
  j.at("node_scope").get_to(v.node_scope);
  j.at("job_scope").get_to(v.job_scope);
  if (!verdict::parse(j.at("collective").get<std::string>(), v.collective))
    throw std::invalid_argument("collective");
  j.at("size").get_to(v.size);
  j.at("most_bytes").get_to(v.most_bytes);
  j.at("wanted_busbw").get_to(v.wanted_busbw);
  j.at("budget_ms").get_to(v.budget_ms);
  j.at("join_ms").get_to(v.join_ms);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoordinatorSetup, settings, identity, ports, accepted_uid, munge_socket,
                                   topology_command)

namespace {

int serve(const CoordinatorSetup& setup) {
  auto credentials = rendezvous::MungeCredentials::start({setup.accepted_uid, setup.munge_socket});
  if (!credentials) {
    log(Level::error, credentials.error().text());
    return 1;
  }
  const auto began = Clock::now();
  auto server = rendezvous::Server::listen(
      {setup.identity, setup.ports, setup.settings.nodes, setup.accepted_uid, {}}, std::move(*credentials));
  if (!server) {
    log(Level::error, server.error().text());
    return 1;
  }
  Coordinator coordinator(setup.settings, began);
  const auto over = began + Milliseconds(setup.settings.budget_ms) + after_verdict;
  while (!coordinator.finished() && Clock::now() < over) {
    for (const auto& event : server->poll(Deadline(std::min(coordinator.next_tick(), over)))) {
      const auto now = Clock::now();
      const auto node = static_cast<std::size_t>(event.node);
      switch (event.kind) {
        case rendezvous::Event::Kind::joined:
          coordinator.message(node, MessageType::join, event.payload, now);
          break;
        case rendezvous::Event::Kind::message:
          coordinator.message(node, static_cast<MessageType>(event.type), event.payload, now);
          break;
        case rendezvous::Event::Kind::left:
          coordinator.left(node, event.why, now);
          break;
        case rendezvous::Event::Kind::refused:
          log(Level::warning, fmt::format("{}: refused {}", setup.identity.text(), event.why));
          break;
      }
    }
    coordinator.tick(Clock::now());
    if (coordinator.wants_topology())
      coordinator.set_topology(ask_topology(setup.topology_command), Clock::now());
    for (const auto& out : coordinator.take_outgoing())
      if (auto sent =
              server->send(static_cast<int>(out.node), static_cast<std::uint16_t>(out.type), out.payload);
          !sent)
        coordinator.left(out.node, sent.error().text(), Clock::now());
  }
  if (auto finished = server->finish(Deadline::in(goodbye_limit)); !finished)
    log(Level::warning, finished.error().text());
  return coordinator.finished() ? 0 : 1;
}

}  // namespace

std::map<std::string, std::string> ask_topology(const std::vector<std::string>& command) {
  std::map<std::string, std::string> leaf_of;
  if (command.empty()) return leaf_of;
  Command child{command.front(), {command.begin() + 1, command.end()}, {}, {}, {}};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with("SLURM_CONF=")) child.environment.emplace_back(*entry);
  const auto finished = run(child, "", Deadline::in(topology_limit), 16U << 20U);
  if (!finished || !finished->exit.clean()) {
    log(Level::warning,
        "the topology could not be had, so neighbours in the node list are taken for neighbours: " +
            (finished ? finished->exit.text() + " " + finished->error : finished.error().text()));
    return leaf_of;
  }
  try {
    const auto answer = json::parse(finished->out);  // outlives the loop over its items
    for (const auto& [leaf, nodes] : answer.at("leaves").items())
      for (const auto& node : nodes) leaf_of[node.get<std::string>()] = leaf;
  } catch (const std::exception& e) {
    log(Level::warning, fmt::format("the topology's answer does not fit: {}", printable(e.what())));
    leaf_of.clear();
  }
  return leaf_of;
}

Result<Child> start_coordinator(const std::string& program, const CoordinatorSetup& setup) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{"cannot make a pipe", "the coordinator", ""};
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  Command command{program, {"coordinator"}, {}, {{settings_fd, read_end.get()}, {2, STDERR_FILENO}}, {}};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with("SLURM_CONF=") || std::string_view(*entry).starts_with("MUNGE_"))
      command.environment.emplace_back(*entry);
  auto child = Child::start(command);
  if (!child) return child.error();
  read_end.reset();
  const std::string text = json(setup).dump();
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(write_end.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{"did not take its settings", "the coordinator", ""};
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return child;
}

int coordinator_main() {
  std::string text;
  std::array<char, 65'536> buffer{};
  for (;;) {
    const ssize_t n = ::read(settings_fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > most_settings) return 1;
  }
  ::close(settings_fd);
  log_to_system(::geteuid() == 0);
  try {
    return serve(json::parse(text).get<CoordinatorSetup>());
  } catch (const std::exception& e) {
    log(Level::error, fmt::format("the coordinator ends: {}", printable(e.what())));
    return 1;
  }
}

}  // namespace nccl_check::job
