#pragma once
// What a gate and its worker say to each other over one socket: a JSON object a line, each bounded.
//   gate -> worker  {"do":"open","settings":{...},"ms":N}  {"do":"alone"|"measure","task":{...},"ms":N}
//   {"do":"connect","place":{...},"ms":N} worker -> gate  {"stage":"open"}  {"beat":1}  {"opened":{...}}
//   {"figures":[...]}  {"samples":{...}}  {"connected":{...}}  {"failed":{...}}
#include <optional>
#include <string>
#include <string_view>

namespace nccl_check::worker {

constexpr int socket_fd = 3;  // where the worker finds the socket
constexpr std::size_t most_line = 256 * 1024;

// Puts a stream together into lines. A line that is too long is an error that stays.
class LineReader {
 public:
  bool add(std::string_view bytes);  // false: a line is longer than most_line
  std::optional<std::string> next();

 private:
  std::string rest_;
};

}  // namespace nccl_check::worker
