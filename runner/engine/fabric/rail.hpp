#pragma once
// One libfabric endpoint for reliable datagrams on one device, with all that belongs to it. Nothing here
// waits.
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/result.hpp"
#include "engine/fabric/address.hpp"
#include "engine/fabric/library.hpp"

namespace nccl_check::engine::fabric {

// A message under way. libfabric keeps `context` until the completion: it must stay where it is, and come
// first.
struct Posted {
  fi_context2 context{};
  bool receive = false;
  bool token = false;
  bool pending = false;
  int peer = -1;            // rank
  std::uint64_t bytes = 0;  // expected, for a receive
};

struct Completion {
  Posted* post = nullptr;   // null only together with an error
  std::uint64_t bytes = 0;  // received
  std::string error;        // empty: it went well
  std::string where;        // provider and device
};

class Rail {
 public:
  // `info` is one entry of fi_getinfo()'s list; `name` is for texts.
  static Result<Rail> open(std::shared_ptr<const Library> library, const fi_info& info, std::string name);
  Rail(Rail&& other) noexcept { *this = std::move(other); }
  Rail& operator=(Rail&& other) noexcept;
  ~Rail();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const EndpointAddress& address() const { return address_; }
  // Messages each way that may be under way at once.
  [[nodiscard]] std::size_t depth() const { return depth_; }
  // -1: the provider has nothing to block on.
  [[nodiscard]] int wait_fd() const { return wait_fd_; }
  [[nodiscard]] bool manual_progress() const { return manual_progress_; }

  // The peer's address has been checked for form (Rail::fits) before.
  [[nodiscard]] Status fits(const EndpointAddress& peer) const;
  Result<fi_addr_t> add_peer(const EndpointAddress& peer);

  // Registers the one region that all messages lie in, where the provider asks for it; forget before it is
  // unmapped.
  Status register_memory(std::byte* base, std::size_t size);
  void forget_memory();

  // "sending to rank 3 (next) failed: Connection refused", with provider, device and, where there is one, a
  // remedy.
  [[nodiscard]] Error failed(std::string_view what, long code) const;

  // 0, -FI_EAGAIN (poll, then try again) or another libfabric error.
  long send(const std::byte* data, std::size_t size, fi_addr_t to, std::uint64_t tag, Posted& post);
  long receive(std::byte* data, std::size_t size, std::uint64_t tag, Posted& post);
  // Drives progress and appends what has completed. An error of the queue itself is the result.
  Status poll(std::vector<Completion>& out);
  // The same, but blocks until something has completed or for `wait`, if the provider can; true: it could.
  Result<bool> poll(std::vector<Completion>& out, Milliseconds wait);
  // Whether the descriptor may be blocked on now; false: poll() has something to do.
  [[nodiscard]] bool may_block();

 private:
  Rail() = default;
  Status take(long read, const fi_cq_tagged_entry* entries, std::vector<Completion>& out);
  Status open_endpoint(fi_info& info, fid_ep*& out);

  std::shared_ptr<const Library> library_;
  std::string name_;
  std::string provider_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_ep* receiver_ = nullptr;  // its address is the rail's
  fid_ep* sender_ = nullptr;    // null: the same one
  fid_mr* mr_ = nullptr;
  EndpointAddress address_;
  std::size_t depth_ = 0;
  int wait_fd_ = -1;
  int mr_mode_ = 0;
  bool manual_progress_ = false;
};

// Tags have this many bits here; every provider known offers at least as many.
constexpr int tag_bits = 47;

}  // namespace nccl_check::engine::fabric
