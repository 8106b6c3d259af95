#pragma once
// Measuring. An engine lives in the worker process of one node, is driven by one thread, and knows nothing of
// Slurm, limits or verdicts. Every call returns by its deadline or the worker is killed by its supervisor.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/result.hpp"
#include "verdict/verdict.hpp"

namespace nccl_check::engine {

// A failure of a check, sorted as the verdict needs it: untested (could not run), broken (hardware missing or
// in error), hung (deadline passed while waiting for peers), corrupt (wrong data).
struct Failure {
  verdict::Class cls = verdict::Class::untested;
  Error error;
};

template <class T>
class [[nodiscard]] Measured {
 public:
  Measured(T value) : state_(std::move(value)) {}            // NOLINT
  Measured(Failure failure) : state_(std::move(failure)) {}  // NOLINT
  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  [[nodiscard]] const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

struct Settings {
  std::string engine = "fabric";  // or "nccl"
  std::string
      provider;  // fabric: libfabric provider ("net", "tcp", "cxi", "verbs", ...); empty: the best found
  std::vector<std::string> interfaces;  // fabric: network interfaces or domains, exact names, one endpoint
                                        // each; empty: found by itself
  std::string toward;   // fabric: where nothing is named, the interface with the route to this address is the
                        // last resort
  std::string library;  // path of libfabric or libnccl; empty: the loader's own search
  std::string cuda_library,
      nvml_library;  // nccl: paths of libcuda and libnvidia-ml; empty: the loader's own search
  std::vector<std::string>
      gpus;  // nccl: the job's, as Slurm gives them: indices ("0") or UUIDs ("GPU-..."); empty: all
  std::uint64_t most_bytes = 64U << 20U;  // no buffer is larger
};

// What the engine is on this node, for comparing nodes before anything is measured and for the texts.
struct Description {
  std::string engine;  // "fabric"
  std::map<std::string, std::string>
      versions;                      // {"libfabric": "1.17.0", "provider": "net"}: must be equal on all nodes
  std::vector<std::string> devices;  // "hs0", "mlx5_0:1", "NVIDIA H200"
  std::string device_text;           // for people: "hs0 (tcp)"
  int ranks = 1;                     // ranks this worker holds (fabric: 1; nccl: GPUs)
  double line_rate = 0;   // GB/s that the network devices carry together by their own word; 0: unknown
  std::string line_text;  // where that number is from: "hs0 at 10 Gb/s"
};

struct Opened {
  Description description;
  std::string address;  // opaque, at most 4 KiB: what a peer's connect() or pair_with() needs
};

// A worker's place among all ranks, of which it holds Description::ranks from `rank` on: fabric's ring has
// one rank a node. Without both neighbours' addresses there is no ring, but pairs can be measured (fabric).
// `shared` is the root's opaque address for engines that need one for all (NCCL's unique id).
struct Place {
  int rank = 0;
  int ranks = 1;
  std::string next;      // address of rank + 1
  std::string previous;  // address of rank - 1
  std::string shared;
};

struct Task {
  verdict::Operation operation = verdict::Operation::all_reduce;
  std::uint64_t bytes = 0;  // nccl-tests' size column; memory_copy: bytes read plus bytes written
  int warmups = 1;
  int iterations = 5;
  bool verify = true;  // check the data after the last iteration, outside the timed part
  std::uint64_t seed =
      0;  // equal on all ranks, another one for every task: data and message tags follow from it
  // send_recv only: the partner's address and first rank; both ways at once, rank i here with rank i there.
  // The rank itself: nothing to do.
  std::string partner;
  int partner_rank = -1;
  int round = 0;  // of pairing: no two tasks of one worker with different partners share one
};

// A rank's own share in a pair: what tells a slow port from the others.
struct Rail {
  std::string device;  // "GPU 3 (0000:5d:00.0)"
  std::vector<Nanoseconds> times;
};

struct Samples {
  std::vector<Nanoseconds> times;  // one an iteration, this rank's own
  std::uint64_t bytes =
      0;  // bytes really used (rounded to what the operation needs); send_recv: over all rails
  std::uint64_t wrong = 0;  // elements that were not as they should be; 0 when not verified
  std::string first_wrong;  // "element 17: got 3, expected 5"
  // Share of the time (0 to 1) in which the measuring thread could have run and got no CPU: what is slow then
  // may be the node's load and not its network. Filled in by the worker.
  double starved = 0;
  std::vector<Rail> rails;  // send_recv with several ranks: one each
};

// One thing measured on this node alone.
struct Figure {
  verdict::Operation operation = verdict::Operation::memory_copy;
  std::string
      subject;    // which device or pair of them: "GPU 1 (0000:3b:00.0)", "GPU 0 with GPU 1"; empty: the node
  int ranks = 1;  // for the bus bandwidth
  Samples samples;
  double ceiling = 0;        // GB/s of bus bandwidth that this hardware carries by its own word; 0: unknown
  std::string ceiling_text;  // where that number is from: "18 NVLinks at 25 GB/s"
  std::string remark;        // what was found beside it: "slowed down by power brake while measuring"
};

// How the ranks came together.
struct Connected {
  std::string network;  // what carries the data between nodes, by the library's own word: "IB mlx5_0:1",
                        // "Socket eth0"; empty: unknown
  std::string
      remark;  // what a person should know of that: "NCCL used Socket though 8 InfiniBand ports are active"
};

// Called from inside waits, at least every 100 ms, with what is being waited for: the worker's sign of life.
using Heartbeat = std::function<void()>;

class Engine {
 public:
  virtual ~Engine() = default;
  // Stages, each with its deadline. open() needs no peer; connect() needs all peers to have opened.
  virtual Measured<Opened> open(const Settings& settings, Deadline deadline) = 0;
  virtual Measured<Connected> connect(const Place& place, Deadline deadline) = 0;
  virtual Measured<Samples> measure(const Task& task, Deadline deadline) = 0;
  // What can be measured on this node alone: fabric memory_copy; nccl `task` among this node's ranks, device
  // memory, links between devices and to the host. Called before connect(), while peers still open.
  virtual Measured<std::vector<Figure>> measure_alone(const Task& task, Deadline deadline) = 0;
};

std::unique_ptr<Engine> make_fabric_engine(Heartbeat heartbeat);
std::unique_ptr<Engine> make_nccl_engine(Heartbeat heartbeat);
// By Settings::engine; nullptr: there is none of that name.
std::unique_ptr<Engine> make_engine(const std::string& name, Heartbeat heartbeat);

}  // namespace nccl_check::engine
