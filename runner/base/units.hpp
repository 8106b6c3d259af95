#pragma once
// Sizes, times and rates as people write them. GB = 1e9 bytes (as nccl-tests counts bandwidth); K, M, G of a
// size are powers of 1024 (as nccl-tests counts sizes).
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nccl_check {

Result<std::uint64_t> parse_size(std::string_view text);  // 8, 4K, 256M, 1G, 1GiB
Result<std::chrono::milliseconds> parse_duration(
    std::string_view text);                          // 500ms, 10s, 6h, 2d; a bare number: seconds
Result<double> parse_number(std::string_view text);  // a finite decimal number, nothing behind it

std::string format_number(double value);                 // the shortest decimal text that parse_number reads back
std::string format_size(std::uint64_t bytes);            // "1 GiB", "6 MiB", "1000 B"
std::string format_seconds(std::chrono::nanoseconds t);  // "2.9 s"
std::string format_rate(double gigabytes_per_second);    // three significant digits: "361", "11.2", "0.0234"

}  // namespace nccl_check
