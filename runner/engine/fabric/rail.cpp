#include "engine/fabric/rail.hpp"

#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.hpp"

namespace nccl_check::engine::fabric {
namespace {

constexpr std::size_t wanted_depth = 8;
constexpr std::size_t tokens = 8;  // small messages beside the data, both ways

template <class Fid>
void close_one(Fid*& fid) {
  if (fid != nullptr) fi_close(&fid->fid);
  fid = nullptr;
}

// The tag format has a bit for every usable one, or alternating bits from the highest usable one on.
int usable_tag_bits(std::uint64_t format) {
  return format == 0 ? 64 : static_cast<int>(std::bit_width(format));
}

// There both directions of a pair share one TCP connection, in which the requests that make a peer send wait
// behind the data that this side sends: each direction gets half of the line. Sending from an endpoint of its
// own gives each direction its own connection.
bool is_layered_over_sockets(std::string_view provider) {
  return provider == "tcp;ofi_rxm" || provider == "net;ofi_rxm" || provider == "sockets;ofi_rxm";
}

}  // namespace

Error Rail::failed(std::string_view what, long code) const {
  std::string remedy;
  if (code == -FI_ENOMEM)
    remedy = "memory can't be registered: is the locked-memory limit (ulimit -l) high enough?";
  if (code == -FI_EACCES || code == -FI_EPERM) remedy = "the device refuses this user";
  return Error{fmt::format("{} failed: {}", what, library_->error(code)),
               fmt::format("{} on {}", provider_, name_), remedy};
}

Result<Rail> Rail::open(std::shared_ptr<const Library> library, const fi_info& offered, std::string name) {
  Rail rail;
  rail.library_ = std::move(library);
  rail.name_ = std::move(name);
  rail.provider_ = offered.fabric_attr->prov_name;
  rail.mr_mode_ = offered.domain_attr->mr_mode;
  rail.manual_progress_ = offered.domain_attr->data_progress != FI_PROGRESS_AUTO;
  if (usable_tag_bits(offered.ep_attr->mem_tag_format) < tag_bits)
    return Error{fmt::format("tags have {} bits, {} are needed",
                             usable_tag_bits(offered.ep_attr->mem_tag_format), tag_bits),
                 fmt::format("{} on {}", rail.provider_, rail.name_), "name another provider"};

  const Info copy(rail.library_->dupinfo(&offered), rail.library_->freeinfo);
  if (!copy) return rail.failed("fi_dupinfo", -FI_ENOMEM);
  fi_info* info = copy.get();
  const std::size_t limit = std::min(info->tx_attr->size, info->rx_attr->size);
  rail.depth_ = limit > tokens ? std::min(wanted_depth, limit - tokens) : 1;

  int rc = rail.library_->fabric(info->fabric_attr, &rail.fabric_, nullptr);
  if (rc != 0) return rail.failed("fi_fabric", rc);
  rc = fi_domain(rail.fabric_, info, &rail.domain_, nullptr);
  if (rc != 0) return rail.failed("fi_domain", rc);

  fi_av_attr av{};
  av.type = info->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_MAP : info->domain_attr->av_type;
  rc = fi_av_open(rail.domain_, &av, &rail.av_, nullptr);
  if (rc != 0) return rail.failed("fi_av_open", rc);

  fi_cq_attr cq{};
  cq.size = 4 * (rail.depth_ + tokens);
  cq.format = FI_CQ_FORMAT_TAGGED;
  cq.wait_obj = FI_WAIT_FD;
  rc = fi_cq_open(rail.domain_, &cq, &rail.cq_, nullptr);
  if (rc == 0) {
    if (fi_control(&rail.cq_->fid, FI_GETWAIT, &rail.wait_fd_) != 0) rail.wait_fd_ = -1;
  } else {  // some providers for hardware have nothing to block on: these are polled
    cq.wait_obj = FI_WAIT_NONE;
    rc = fi_cq_open(rail.domain_, &cq, &rail.cq_, nullptr);
    if (rc != 0) return rail.failed("fi_cq_open", rc);
  }

  if (auto status = rail.open_endpoint(*info, rail.receiver_); !status) return status.error();
  if (is_layered_over_sockets(rail.provider_))
    if (auto status = rail.open_endpoint(*info, rail.sender_); !status) return status.error();

  std::array<char, most_address_bytes> own{};
  std::size_t length = own.size();
  rc = fi_getname(&rail.receiver_->fid, own.data(), &length);
  if (rc != 0 || length == 0 || length > own.size())
    return rail.failed("fi_getname", rc == 0 ? -FI_ETOOSMALL : rc);
  rail.address_ = {info->addr_format, std::string(own.data(), length)};
  return rail;
}

Status Rail::open_endpoint(fi_info& info, fid_ep*& out) {
  int rc = fi_endpoint(domain_, &info, &out, nullptr);
  if (rc != 0) return failed("fi_endpoint", rc);
  rc = fi_ep_bind(out, &av_->fid, 0);
  if (rc == 0) rc = fi_ep_bind(out, &cq_->fid, FI_TRANSMIT | FI_RECV);
  if (rc != 0) return failed("fi_ep_bind", rc);
  rc = fi_enable(out);
  if (rc != 0) return failed("fi_enable", rc);
  return success();
}

Rail& Rail::operator=(Rail&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(name_, other.name_);
  std::swap(provider_, other.provider_);
  std::swap(fabric_, other.fabric_);
  std::swap(domain_, other.domain_);
  std::swap(av_, other.av_);
  std::swap(cq_, other.cq_);
  std::swap(receiver_, other.receiver_);
  std::swap(sender_, other.sender_);
  std::swap(mr_, other.mr_);
  std::swap(address_, other.address_);
  std::swap(depth_, other.depth_);
  std::swap(wait_fd_, other.wait_fd_);
  std::swap(mr_mode_, other.mr_mode_);
  std::swap(manual_progress_, other.manual_progress_);
  return *this;
}

Rail::~Rail() {
  close_one(sender_);
  close_one(receiver_);
  close_one(mr_);
  close_one(cq_);
  close_one(av_);
  close_one(domain_);
  close_one(fabric_);
}

Status Rail::fits(const EndpointAddress& peer) const {
  const Error other{"a peer's address is of another kind than this node's",
                    fmt::format("{} on {}", provider_, name_),
                    "all nodes need the same provider and the same family of addresses"};
  if (peer.format != address_.format) return other;
  if (peer.format == FI_ADDR_STR) {  // libfabric reads it as a C string
    if (peer.bytes.find('\0') != peer.bytes.size() - 1) return other;
    return success();
  }
  if (peer.bytes.size() != address_.bytes.size()) return other;
  const bool socket_address = peer.format == FI_SOCKADDR || peer.format == FI_SOCKADDR_IN ||
                              peer.format == FI_SOCKADDR_IN6 || peer.format == FI_SOCKADDR_IB;
  if (socket_address && peer.bytes.compare(0, 2, address_.bytes, 0, 2) != 0) return other;  // sa_family
  return success();
}

Result<fi_addr_t> Rail::add_peer(const EndpointAddress& peer) {
  fi_addr_t at = FI_ADDR_NOTAVAIL;
  const int added = fi_av_insert(av_, peer.bytes.data(), 1, &at, 0, nullptr);
  if (added != 1 || at == FI_ADDR_NOTAVAIL) return failed("fi_av_insert", added < 0 ? added : -FI_EINVAL);
  return at;
}

Status Rail::register_memory(std::byte* base, std::size_t size) {
  if (mr_ != nullptr || (mr_mode_ & FI_MR_LOCAL) == 0) return success();
  int rc = fi_mr_reg(domain_, base, size, FI_SEND | FI_RECV, 0, 0, 0, &mr_, nullptr);
  if (rc != 0) return failed("fi_mr_reg", rc);
  if ((mr_mode_ & FI_MR_ENDPOINT) != 0) {
    rc = fi_mr_bind(mr_, &receiver_->fid, 0);
    if (rc == 0) rc = fi_mr_enable(mr_);
    if (rc != 0) {
      close_one(mr_);
      return failed("fi_mr_enable", rc);
    }
  }
  return success();
}

void Rail::forget_memory() {
  close_one(mr_);
}

long Rail::send(const std::byte* data, std::size_t size, fi_addr_t to, std::uint64_t tag, Posted& post) {
  void* const desc = mr_ == nullptr ? nullptr : fi_mr_desc(mr_);
  const long rc =
      fi_tsend(sender_ != nullptr ? sender_ : receiver_, data, size, desc, to, tag, &post.context);
  post.pending = rc == 0;
  return rc;
}

long Rail::receive(std::byte* data, std::size_t size, std::uint64_t tag, Posted& post) {
  void* const desc = mr_ == nullptr ? nullptr : fi_mr_desc(mr_);
  const long rc = fi_trecv(receiver_, data, size, desc, FI_ADDR_UNSPEC, tag, 0, &post.context);
  post.pending = rc == 0;
  return rc;
}

Status Rail::poll(std::vector<Completion>& out) {
  std::array<fi_cq_tagged_entry, 16> entries{};
  return take(fi_cq_read(cq_, entries.data(), entries.size()), entries.data(), out);
}

Result<bool> Rail::poll(std::vector<Completion>& out, Milliseconds wait) {
  if (wait_fd_ < 0) return false;
  std::array<fi_cq_tagged_entry, 16> entries{};
  const long n = fi_cq_sread(cq_, entries.data(), entries.size(), nullptr, static_cast<int>(wait.count()));
  if (n == -FI_EINTR || n == -FI_ECANCELED || n == -FI_ETIMEDOUT) return true;
  if (n == -FI_ENOSYS || n == -FI_EOPNOTSUPP) {
    wait_fd_ = -1;  // it can't after all: polled from now on
    return false;
  }
  if (auto status = take(n, entries.data(), out); !status) return status.error();
  return true;
}

Status Rail::take(long n, const fi_cq_tagged_entry* entries, std::vector<Completion>& out) {
  if (n == -FI_EAGAIN) return success();
  for (long i = 0; i < n; ++i)
    out.push_back({static_cast<Posted*>(entries[i].op_context), entries[i].len, "", ""});
  if (n >= 0) return success();
  if (n != -FI_EAVAIL) return failed("fi_cq_read", n);
  fi_cq_err_entry entry{};
  const long rc = fi_cq_readerr(cq_, &entry, 0);
  if (rc == -FI_EAGAIN) return success();
  if (rc < 0) return failed("fi_cq_readerr", rc);
  const char* detail = fi_cq_strerror(cq_, entry.prov_errno, entry.err_data, nullptr, 0);
  std::string text = library_->error(entry.err);
  if (entry.prov_errno != entry.err && detail != nullptr && *detail != '\0' && text != detail)
    text += fmt::format(" ({})", printable(detail, 120));
  out.push_back({static_cast<Posted*>(entry.op_context), 0, text, fmt::format("{} on {}", provider_, name_)});
  return success();
}

bool Rail::may_block() {
  fid* cq = &cq_->fid;
  const int rc = fi_trywait(fabric_, &cq, 1);
  if (rc != 0 && rc != -FI_EAGAIN) wait_fd_ = -1;  // it can't after all: polled from now on
  return rc == 0;
}

}  // namespace nccl_check::engine::fabric
