#pragma once
// Text that came from outside: taken apart, and made safe to show.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nccl_check {

std::vector<std::string> split(std::string_view text,
                               char separator);  // "a,,b" gives "a", "", "b"; "" gives nothing
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);

// Control characters become '?', and what is longer is cut with "...": for showing a stranger's text to a
// terminal or log.
std::string printable(std::string_view text, std::size_t most = 200);

std::string to_hex(std::string_view bytes);
Result<std::string> from_hex(std::string_view digits);

// Slurm's host lists, both ways: "n[1-3,07],x" <-> {"n1","n2","n3","n07","x"}. At most 65,536 names. The
// order is kept; compress() joins neighbours that count upwards, so that a list in order comes out short.
Result<std::vector<std::string>> expand_hostlist(std::string_view list);
std::string compress_hostlist(const std::vector<std::string>& names);

}  // namespace nccl_check
