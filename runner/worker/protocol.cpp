#include "worker/protocol.hpp"

namespace nccl_check::worker {

bool LineReader::add(std::string_view bytes) {
  rest_.append(bytes);
  const auto last = rest_.rfind('\n');
  const std::size_t open = last == std::string::npos ? rest_.size() : rest_.size() - last - 1;
  return open <= most_line;
}

std::optional<std::string> LineReader::next() {
  const auto end = rest_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  return line;
}

}  // namespace nccl_check::worker
