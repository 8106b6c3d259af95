#include "job/rendezvous/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/process.hpp"
#include "base/text.hpp"
#include "job/rendezvous/socket.hpp"

namespace nccl_check::rendezvous {
namespace {

constexpr std::size_t most_output = 64U << 10U;

Result<std::string> output_of(Command command, Deadline deadline) {
  const std::string program = command.program;
  auto finished = run(std::move(command), "", deadline, most_output);
  if (!finished) return finished.error();
  if (finished->timed_out) return Error{"gave no answer in time", program, ""};
  if (!finished->exit.clean())
    return Error{fmt::format("{}: {}", finished->exit.text(), printable(trim(finished->error))), program, ""};
  return std::move(finished->out);
}

AddressSource from_program(std::string name, std::string program, std::vector<std::string> arguments,
                           std::vector<std::string> environment) {
  auto look_up = [program = std::move(program), arguments = std::move(arguments),
                  environment = std::move(environment)](
                     const std::string& node, Deadline deadline) -> Result<std::vector<std::string>> {
    Command command;
    command.program = program;
    command.arguments = arguments;
    command.arguments.push_back(node);
    command.environment = environment;
    auto out = output_of(std::move(command), deadline);
    if (!out) return out.error();
    // {"addresses":{"n1":"10.0.0.7"},"unknown":[]}, as slurm/nodes.cpp writes it.
    const auto answer = nlohmann::json::parse(*out, nullptr, false);
    const auto addresses = answer.is_object() ? answer.value("addresses", nlohmann::json()) : answer;
    if (!addresses.is_object())
      return Error{fmt::format("printed no addresses: '{}'", printable(trim(*out), 80)), program, ""};
    const auto address = addresses.find(node);
    if (address == addresses.end() || !address->is_string())
      return Error{fmt::format("knows no address of {}", node), program, ""};
    return std::vector<std::string>{address->get<std::string>()};
  };
  return {std::move(name), std::move(look_up)};
}

// A node's name becomes an argument, so it must not look like an option.
bool is_name(const std::string& node) {
  return !node.empty() && node.size() <= 255 && node.front() != '-' &&
         std::all_of(node.begin(), node.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

AddressSource slurm_table(std::string program, std::vector<std::string> environment) {
  return from_program("Slurm's table", std::move(program), {"address"}, std::move(environment));
}

AddressSource slurm_controller(std::string program, std::vector<std::string> environment) {
  return from_program("Slurm's controller", std::move(program), {"address", "--rpc"}, std::move(environment));
}

AddressSource resolver(std::string getent) {
  auto look_up = [getent = std::move(getent)](const std::string& node,
                                              Deadline deadline) -> Result<std::vector<std::string>> {
    Command command;
    command.program = getent;
    command.arguments = {"ahosts", node};
    auto out = output_of(std::move(command), deadline);
    if (!out) return out.error();
    std::vector<std::string> found;
    for (const auto& line : split(*out, '\n')) {
      const auto address = line.substr(0, line.find_first_of(" \t"));
      if (!address.empty()) found.push_back(address);
    }
    return found;
  };
  return {"the resolver", std::move(look_up)};
}

Result<std::vector<std::string>> find_addresses(const std::string& node,
                                                const std::vector<AddressSource>& sources,
                                                Deadline deadline) {
  if (!is_name(node)) return Error{fmt::format("'{}' is not a node's name", printable(node)), "", ""};
  std::vector<std::string> said;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto share = deadline.left() / static_cast<long>(sources.size() - i);
    auto found = sources[i].look_up(node, Deadline::in(share));
    if (!found) {
      said.push_back(fmt::format("{}: {}", sources[i].name, found.error().text()));
      continue;
    }
    std::vector<std::string> addresses;
    for (const auto& address : *found) {
      const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
      if (SocketAddress::parse(address) && !known) addresses.push_back(address);
    }
    if (!addresses.empty()) return addresses;
    said.push_back(fmt::format("{}: no address", sources[i].name));
  }
  return Error{fmt::format("no address was found: {}", said.empty() ? "nobody was asked" : join(said, "; ")),
               node, "give it a NodeAddr in slurm.conf, or a name that the resolver knows"};
}

}  // namespace nccl_check::rendezvous
