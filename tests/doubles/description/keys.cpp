#include "tests/doubles/description/keys.hpp"

#include <map>
#include <sstream>
#include <variant>

namespace nccl_check::doubles {
namespace {

template <class Number>
bool read_number(const std::string& text, Number& number) {
  std::istringstream in(text);
  in >> number;
  return !in.fail() && (in >> std::ws).eof();
}

bool read_bytes(const std::string& text, std::uint64_t& bytes) {
  static const std::map<std::string, double> units{
      {"", 1},     {"KiB", 1024.0}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024},
      {"MB", 1e6}, {"GB", 1e9}};
  std::istringstream in(text);
  double number = 0;
  std::string unit;
  if (!(in >> number) || number < 0) return false;
  in >> unit;
  const auto found = units.find(unit);
  if (found == units.end()) return false;
  bytes = static_cast<std::uint64_t>(number * found->second);
  return true;
}

bool read(const std::string& text, std::string& value) {
  value = text;
  return !text.empty();
}
bool read(const std::string& text, int& value) {
  return read_number(text, value);
}
bool read(const std::string& text, long& value) {
  return read_number(text, value);
}
bool read(const std::string& text, double& value) {
  return read_number(text, value);
}
bool read(const std::string& text, std::uint64_t& value) {
  return read_bytes(text, value);
}

bool read(const std::string& text, Stage& stage) {
  static const std::map<std::string, Stage> words{{"init", Stage::init},
                                                  {"context", Stage::context},
                                                  {"allocate", Stage::allocate},
                                                  {"kernel", Stage::kernel},
                                                  {"copy", Stage::copy},
                                                  {"comm_init", Stage::comm_init},
                                                  {"collective", Stage::collective},
                                                  {"memory", Stage::memory},
                                                  {"peer_copy", Stage::peer_copy},
                                                  {"host_copy", Stage::host_copy}};
  const auto found = words.find(text);
  if (found == words.end()) return false;
  stage = found->second;
  return true;
}

template <class Owner>
using Member = std::variant<int Owner::*, long Owner::*, double Owner::*, std::uint64_t Owner::*,
                            std::string Owner::*, Stage Owner::*>;

template <class Owner>
bool set(const std::map<std::string, Member<Owner>>& keys, Owner& owner, const std::string& key,
         const std::string& value) {
  const auto found = keys.find(key);
  if (found == keys.end()) return false;
  return std::visit([&](auto member) { return read(value, owner.*member); }, found->second);
}

}  // namespace

bool set_host_key(Host& host, const std::string& key, const std::string& value) {
  static const std::map<std::string, Member<Host>> keys{
      {"gpus", &Host::gpus},
      {"model", &Host::model},
      {"memory", &Host::memory},
      {"real_memory", &Host::real_memory},
      {"memory_bandwidth", &Host::memory_bandwidth},
      {"memory_bus_width", &Host::memory_bus_width},
      {"memory_clock", &Host::memory_clock},
      {"multiprocessors", &Host::multiprocessors},
      {"compute_capability", &Host::compute_capability},
      {"nvlinks", &Host::nvlinks},
      {"nvlink_bandwidth", &Host::nvlink_bandwidth},
      {"nvlink_speed", &Host::nvlink_speed},
      {"host_link", &Host::host_link},
      {"pcie_generation", &Host::pcie_generation},
      {"pcie_width", &Host::pcie_width},
      {"nics_per_gpu", &Host::nics_per_gpu},
      {"nic_rate", &Host::nic_rate},
      {"network", &Host::network},
      {"socket_rate", &Host::socket_rate},
      {"numa_nodes", &Host::numa_nodes},
      {"driver", &Host::driver},
      {"driver_text", &Host::driver_text},
      {"nccl", &Host::nccl},
      {"latency", &Host::latency},
      {"noise", &Host::noise},
      {"seed", &Host::seed},
      {"init_time", &Host::init_time},
      {"connect_time", &Host::connect_time},
  };
  if (!set(keys, host, key, value)) return false;
  return host.gpus >= 0 && host.gpus <= most_gpus && host.nvlinks >= 0 && host.nvlinks <= 18 &&
         host.nics_per_gpu >= 1 && host.numa_nodes >= 1 && host.memory_bandwidth > 0 && host.host_link > 0 &&
         host.nvlink_bandwidth > 0 && host.nic_rate > 0 && host.socket_rate > 0 &&
         (host.network == "IB" || host.network == "Socket");
}

bool set_fault_key(Fault& fault, const std::string& key, const std::string& value) {
  static const std::map<std::string, Member<Fault>> keys{
      {"host", &Fault::host}, {"gpu", &Fault::gpu},       {"peer", &Fault::peer},
      {"nic", &Fault::nic},   {"link", &Fault::link},     {"factor", &Fault::factor},
      {"code", &Fault::code}, {"value", &Fault::value},   {"after", &Fault::after},
      {"text", &Fault::text}, {"reason", &Fault::reason}, {"stage", &Fault::stage}};
  return set(keys, fault, key, value) && fault.factor > 0;
}

std::optional<Kind> kind_of(const std::string& word) {
  static const std::map<std::string, Kind> words{
      {"slow_memory", Kind::slow_memory},
      {"slow_host_link", Kind::slow_host_link},
      {"slow_collectives", Kind::slow_collectives},
      {"slow_link", Kind::slow_link},
      {"slow_nic", Kind::slow_nic},
      {"hang", Kind::hang},
      {"crash", Kind::crash},
      {"cuda_error", Kind::cuda_error},
      {"corrupt", Kind::corrupt},
      {"nccl_error", Kind::nccl_error},
      {"nvml_error", Kind::nvml_error},
      {"missing_gpu", Kind::missing_gpu},
      {"ecc_errors", Kind::ecc_errors},
      {"row_remap", Kind::row_remap},
      {"nvlinks_down", Kind::nvlinks_down},
      {"pcie_width", Kind::pcie_width},
      {"pcie_generation", Kind::pcie_generation},
      {"throttled", Kind::throttled},
      {"mig", Kind::mig},
      {"exclusive_process", Kind::exclusive_process},
      {"busy", Kind::busy},
  };
  const auto found = words.find(word);
  if (found == words.end()) return std::nullopt;
  return found->second;
}

}  // namespace nccl_check::doubles
