#include "engine/fabric/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "engine/fabric/address.hpp"

namespace nccl_check::engine::fabric {
namespace {

using node::Interface;

// Hardware first. psm, psm2 and psm3 are left out: they claim devices that others drive better; naming one
// works.
constexpr std::array<std::string_view, 8> preference{"cxi", "efa", "opx",         "verbs;ofi_rxm",
                                                     "net", "tcp", "tcp;ofi_rxm", "sockets"};

bool over_sockets(std::string_view provider) {
  const auto core = provider.substr(0, provider.find(';'));
  return core == "net" || core == "tcp" || core == "sockets" || core == "udp";
}

const Interface* interface_of(const Candidate& candidate, const std::vector<Interface>& interfaces) {
  const auto first = [&](auto&& matches) {
    const auto found = std::find_if(interfaces.begin(), interfaces.end(), matches);
    return found == interfaces.end() ? nullptr : &*found;
  };
  if (const auto source = node::parse_address(candidate.source))
    if (const auto* i = first([&](const Interface& one) {
          return std::find(one.addresses.begin(), one.addresses.end(), *source) != one.addresses.end();
        }))
      return i;
  if (const auto* i = first([&](const Interface& one) { return one.name == candidate.domain; })) return i;
  if (const auto* i = first([&](const Interface& one) {
        return std::find(one.domains.begin(), one.domains.end(), candidate.domain) != one.domains.end();
      }))
    return i;
  if (candidate.pci.empty()) return nullptr;
  return first([&](const Interface& one) { return one.device == candidate.pci; });
}

// A candidate with what the node knows of it.
struct Option {
  const Candidate* candidate;
  const Interface* interface;  // null: none is known
  std::optional<node::Address> source;

  [[nodiscard]] std::string name(bool sockets) const {
    return sockets && interface != nullptr ? interface->name : candidate->domain;
  }
  [[nodiscard]] bool called(const std::string& wanted) const {
    return candidate->domain == wanted || (interface != nullptr && interface->name == wanted);
  }
  // IPv4 before IPv6 before no address at all; link-local addresses, which need a scope, last.
  [[nodiscard]] int rank() const {
    if (!source) return 2;
    if (source->link_local()) return 3;
    return source->family == node::Address::Family::v4 ? 0 : 1;
  }
  [[nodiscard]] double speed(bool sockets) const {
    if (!sockets && candidate->speed > 0) return candidate->speed;
    return interface == nullptr ? 0 : interface->speed;
  }
};

std::string list_of(const std::vector<Option>& options, bool sockets) {
  std::vector<std::string> parts;
  for (const auto& option : options) {
    const std::string part = option.source
                                 ? fmt::format("{} ({})", option.name(sockets), option.source->text())
                                 : option.name(sockets);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  return parts.empty() ? "none" : join(parts, ", ");
}

// The best candidate for each device, in libfabric's order of devices.
std::vector<Option> best_of_each(const std::vector<Option>& options) {
  std::vector<Option> best;
  for (const auto& option : options) {
    const auto same = std::find_if(best.begin(), best.end(), [&](const Option& o) {
      return o.candidate->domain == option.candidate->domain && o.interface == option.interface;
    });
    if (same == best.end())
      best.push_back(option);
    else if (option.rank() < same->rank())
      *same = option;
  }
  return best;
}

// Bridges without hardware below (docker0, virbr0) lead to this node's own containers only.
bool leads_out(const Interface& i) {
  const bool address = std::any_of(i.addresses.begin(), i.addresses.end(),
                                   [](const node::Address& a) { return !a.link_local(); });
  return i.up && i.carrier && address && i.kind != node::Kind::loopback &&
         (i.kind != node::Kind::bridge || i.hardware);
}

std::string rate_text(double bits) {
  return bits >= 1e9 ? fmt::format("{:g} Gb/s", bits / 1e9) : fmt::format("{:g} Mb/s", bits / 1e6);
}

Chosen finish(std::string_view provider, const std::vector<Option>& options, bool sockets) {
  Chosen chosen;
  chosen.provider = provider;
  std::vector<std::string> words;
  bool known = true;
  for (const auto& option : options) {
    const double speed = option.speed(sockets);
    chosen.rails.push_back({option.candidate->index, option.name(sockets), speed});
    chosen.line_rate += speed / 8e9;
    known = known && speed > 0;
    const bool fiction = option.interface != nullptr && !option.interface->hardware;
    words.push_back(chosen.rails.back().name + (speed > 0 ? " at " + rate_text(speed)
                                                : fiction ? ": a virtual device, whose speed is unknown"
                                                          : ": speed unknown"));
  }
  if (!known) chosen.line_rate = 0;
  chosen.line_text = join(words, ", ");
  return chosen;
}

Result<std::vector<Option>> named(const std::vector<std::string>& names, const std::vector<Option>& options,
                                  std::string_view provider, bool sockets) {
  std::vector<Option> out;
  for (const auto& name : names) {
    std::optional<Option> best;
    for (const auto& option : options)
      if (option.called(name) && (!best || option.rank() < best->rank())) best = option;
    if (!best)
      return Error{fmt::format("there is no interface '{}' for libfabric's provider '{}' on this node",
                               printable(name), provider),
                   "", "there are: " + list_of(options, sockets)};
    if (best->candidate->link_down)
      return Error{fmt::format("the link of '{}' is down", printable(name)), "", "name another interface"};
    for (const auto& other : out)
      if (other.candidate == best->candidate)
        return Error{fmt::format("'{}' is named twice", printable(name)), "", "name each interface once"};
    out.push_back(*best);
  }
  return out;
}

Result<std::vector<Option>> found(const std::vector<Option>& options, std::string_view provider, bool sockets,
                                  const Result<std::string>& toward) {
  std::vector<Option> usable;
  for (const auto& option : best_of_each(options)) {
    if (option.candidate->link_down || option.rank() == 3) continue;
    if (sockets && (option.interface == nullptr || !leads_out(*option.interface))) continue;
    usable.push_back(option);
  }
  if (usable.empty())
    return Error{
        fmt::format("libfabric's provider '{}' has no interface here that leads to other nodes (up, with a "
                    "carrier, and for sockets with an address that is not link-local)",
                    provider),
        "", "name one; there are: " + list_of(options, sockets)};
  double fastest = 0;
  for (const auto& option : usable) fastest = std::max(fastest, option.speed(sockets));
  if (fastest > 0 || !sockets) {
    std::erase_if(usable, [&](const Option& o) { return o.speed(sockets) < fastest; });
  } else if (toward) {
    std::erase_if(usable, [&](const Option& o) { return o.interface->name != *toward; });
    if (usable.empty())
      return Error{
          fmt::format(
              "no interface's speed is known, and '{}', which leads to the other nodes, can't be used",
              *toward),
          "", "name the interfaces; there are: " + list_of(options, sockets)};
  } else if (usable.size() > 1) {
    return Error{"no interface's speed is known, and which one leads to the other nodes isn't either: " +
                     toward.error().text(),
                 "", "name the interfaces; there are: " + list_of(options, sockets)};
  }
  if (usable.size() > most_rails)
    return Error{
        fmt::format("{} interfaces are equally fast; at most {} are used", usable.size(), most_rails), "",
        "name them"};
  // The same order on every node, also where interfaces are named differently: by address, which has the
  // network first.
  std::stable_sort(usable.begin(), usable.end(), [](const Option& a, const Option& b) {
    if (!a.source || !b.source) return a.source.has_value() && !b.source.has_value();
    return a.source->family != b.source->family ? a.source->family < b.source->family
                                                : a.source->bytes < b.source->bytes;
  });
  return usable;
}

}  // namespace

Result<Chosen> choose(const Settings& settings, const std::vector<Candidate>& candidates,
                      const std::vector<Interface>& interfaces, const Result<std::string>& toward) {
  if (settings.interfaces.size() > most_rails)
    return Error{
        fmt::format("{} interfaces are named; at most {} are used", settings.interfaces.size(), most_rails),
        "", ""};
  std::vector<std::string> providers;
  for (const auto& candidate : candidates)
    if (std::find(providers.begin(), providers.end(), candidate.provider) == providers.end())
      providers.push_back(candidate.provider);
  const std::string offered = providers.empty() ? "none" : join(providers, ", ");

  std::vector<std::string> tried;
  if (settings.provider.empty()) {
    for (const auto name : preference) tried.emplace_back(name);
  } else {
    // A core provider without reliable datagrams of its own is offered with a layer on top.
    for (const auto* layer : {"", ";ofi_rxm", ";ofi_rxd"}) tried.push_back(settings.provider + layer);
  }

  std::optional<Error> first_error;
  std::vector<Option> seen;
  for (const auto& provider : tried) {
    const bool sockets = over_sockets(provider);
    std::vector<Option> options;
    for (const auto& candidate : candidates)
      if (candidate.provider == provider)
        options.push_back(
            {&candidate, interface_of(candidate, interfaces), node::parse_address(candidate.source)});
    if (options.empty()) continue;
    seen.insert(seen.end(), options.begin(), options.end());
    const bool asked_for_known = std::any_of(options.begin(), options.end(), [&](const Option& o) {
      return std::any_of(settings.interfaces.begin(), settings.interfaces.end(),
                         [&](const std::string& name) { return o.called(name); });
    });
    // Which of several providers was meant shows by the interfaces' names.
    if (settings.provider.empty() && !settings.interfaces.empty() && !asked_for_known) continue;
    auto rails = settings.interfaces.empty() ? found(options, provider, sockets, toward)
                                             : named(settings.interfaces, options, provider, sockets);
    if (rails) return finish(provider, *rails, sockets);
    if (!settings.provider.empty()) return rails.error();
    if (!first_error || settings.interfaces.empty()) first_error = rails.error();
    if (sockets && settings.interfaces.empty()) break;  // the other socket providers see the same interfaces
  }
  if (first_error) return *first_error;
  if (!seen.empty())
    return Error{fmt::format("there is no interface '{}' for any of libfabric's providers on this node",
                             printable(join(settings.interfaces, ","))),
                 "", "there are: " + list_of(seen, true)};
  if (!settings.provider.empty())
    return Error{fmt::format("libfabric has no provider '{}' with reliable datagrams on this node",
                             printable(settings.provider)),
                 "", "there are: " + offered};
  return Error{"libfabric has no provider on this node that the check uses by itself", "",
               "name one; there are: " + offered};
}

}  // namespace nccl_check::engine::fabric
