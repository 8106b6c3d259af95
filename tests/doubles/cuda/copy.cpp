#include "tests/doubles/cuda/copy.hpp"

#include <cstring>
#include <vector>

#include "tests/doubles/description/faults.hpp"
#include "tests/doubles/description/rates.hpp"

namespace nccl_check::doubles {
namespace {

bool on_device(const Block& block) {
  return block.place == Place::device;
}

bool as_expected(Expect expect, const Block& to, const Block& from) {
  switch (expect) {
    case Expect::host_to_device:
      return on_device(to) && !on_device(from);
    case Expect::device_to_host:
      return !on_device(to) && on_device(from);
    case Expect::device_to_device:
      return on_device(to) && on_device(from);
    case Expect::any:
      break;
  }
  return true;
}

Stage route(const Block& to, const Block& from) {
  if (!on_device(to) || !on_device(from)) return Stage::host_copy;
  return to.gpu == from.gpu ? Stage::memory : Stage::peer_copy;
}

double duration(const Block& to, const Block& from, std::size_t bytes, Stream& stream) {
  const auto size = static_cast<double>(bytes);
  const std::uint64_t key = stream.next_key();
  if (on_device(to) && on_device(from)) {
    if (to.gpu == from.gpu) return lasting(2 * size, memory_rate(to.gpu), key);
    return lasting(size, peer_rate(from.gpu, to.gpu), key);
  }
  return lasting(size, rate_to(stream.gpu(), on_device(to) ? from : to), key);
}

void move(const Copy& copy, Stage stage, int gpu, int peer) {
  std::memmove(copy.to, copy.from, copy.bytes);
  if (strikes(Kind::corrupt, stage, {.gpu = gpu, .peer = peer}) != nullptr) flip_a_bit(copy.to, copy.bytes);
}

}  // namespace

void flip_a_bit(void* address, std::size_t bytes) {
  if (bytes > 0) static_cast<unsigned char*>(address)[bytes / 2] ^= 1U;
}

double rate_to(int gpu, const Block& block) {
  if (block.place != Place::device) return host_rate(gpu, block.place != Place::pageable);
  return block.gpu == gpu ? memory_rate(gpu) : peer_rate(gpu, block.gpu);
}

CUresult copy(const Copy& request, CUstream handle, Expect expect) {
  std::shared_ptr<Stream> stream;
  Context* context = nullptr;
  if (const CUresult result = stream_of(handle, stream, context)) return result;
  const auto to = block_of(request.to, request.bytes), from = block_of(request.from, request.bytes);
  if (!to || !from || !as_expected(expect, *to, *from)) return CUDA_ERROR_INVALID_VALUE;
  Copy what = request;
  std::shared_ptr<std::vector<unsigned char>> staged;  // pageable memory is read before the call returns
  if (from->place == Place::pageable) {
    const auto* begin = static_cast<const unsigned char*>(request.from);
    staged = std::make_shared<std::vector<unsigned char>>(begin, begin + request.bytes);
    what.from = staged->data();
  }
  stream->submit([=, to = *to, from = *from, stream_pointer = stream.get()](double& now) {
    const int gpu = context->gpu;
    crash(Stage::copy, {.gpu = gpu});
    if (strikes(Kind::hang, Stage::copy, {.gpu = gpu}) != nullptr) block_for_good();
    if (const Fault* fault = strikes(Kind::cuda_error, Stage::copy, {.gpu = gpu})) {
      context->broken = static_cast<CUresult>(fault->code);
    }
    move(what, route(to, from), to.gpu != -1 ? to.gpu : from.gpu, from.gpu != to.gpu ? from.gpu : -1);
    now += duration(to, from, what.bytes, *stream_pointer);
    (void)staged;
  });
  if (to->place == Place::pageable) {  // as the driver does
    stream->wait();
    return context->broken;
  }
  return CUDA_SUCCESS;
}

}  // namespace nccl_check::doubles
