#include "verdict/verdict.hpp"

#include <array>

namespace nccl_check::verdict {
namespace {

template <class Enum, std::size_t n>
bool find(const std::array<std::string_view, n>& names, std::string_view text, Enum& out) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] != text) continue;
    out = static_cast<Enum>(i);
    return true;
  }
  return false;
}

constexpr std::array<std::string_view, 7> class_names{"pass",   "slow",       "hung",    "corrupt",
                                                      "broken", "mismatched", "untested"};
constexpr std::array<int, 7> exit_codes{0, 1, 3, 4, 5, 6, 7};
constexpr std::array<int, 7> gravity{0, 3, 4, 6, 5, 2, 1};
constexpr std::array<std::string_view, 5> action_names{"allow", "warn", "fail-job", "strike", "drain"};
constexpr std::array<std::string_view, 5> fate_names{"runs", "requeued", "held", "cancelled", "gone"};
constexpr std::array<std::string_view, 8> operation_names{
    "all_reduce",    "all_gather", "send/recv",          "memory copy",
    "device memory", "peer copy",  "copy to the device", "copy from the device"};
constexpr std::array<std::string_view, 8> operation_keys{"all_reduce",  "all_gather",    "send_recv",
                                                         "memory_copy", "device_memory", "peer_copy",
                                                         "to_device",   "from_device"};

}  // namespace

std::string_view name(Class c) {
  return class_names[static_cast<std::size_t>(c)];
}
bool parse(std::string_view text, Class& c) {
  return find(class_names, text, c);
}
int exit_code(Class c) {
  return exit_codes[static_cast<std::size_t>(c)];
}
Class worse(Class a, Class b) {
  return gravity[static_cast<std::size_t>(a)] >= gravity[static_cast<std::size_t>(b)] ? a : b;
}

std::string_view name(Action a) {
  return action_names[static_cast<std::size_t>(a)];
}
bool parse(std::string_view text, Action& a) {
  return find(action_names, text, a);
}

std::string_view name(Fate f) {
  return fate_names[static_cast<std::size_t>(f)];
}
bool parse(std::string_view text, Fate& f) {
  return find(fate_names, text, f);
}

std::string_view name(Operation op) {
  return operation_names[static_cast<std::size_t>(op)];
}
bool parse(std::string_view text, Operation& op) {
  if (text == "sendrecv") text = "send_recv";
  return find(operation_keys, text, op) || find(operation_names, text, op);
}

double bus_factor(Operation op, int ranks) {
  const double n = ranks;
  switch (op) {
    case Operation::all_reduce:
      return ranks < 2 ? 0 : 2 * (n - 1) / n;
    case Operation::all_gather:
      return ranks < 2 ? 0 : (n - 1) / n;
    case Operation::send_recv:
    case Operation::memory_copy:
    case Operation::device_memory:
    case Operation::peer_copy:
    case Operation::to_device:
    case Operation::from_device:
      return 1;
  }
  return 0;
}

double algbw(std::uint64_t bytes, Nanoseconds t) {
  return t.count() <= 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(t.count());
}

double busbw(Operation op, int ranks, std::uint64_t bytes, Nanoseconds t) {
  return algbw(bytes, t) * bus_factor(op, ranks);
}

}  // namespace nccl_check::verdict
