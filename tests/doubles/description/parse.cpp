#include <fnmatch.h>

#include "tests/doubles/description/keys.hpp"

namespace nccl_check::doubles {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool fits(const std::string& pattern, const std::string& host) {
  return ::fnmatch(pattern.c_str(), host.c_str(), 0) == 0;
}

bool has_stage(Kind kind) {
  return kind == Kind::hang || kind == Kind::crash || kind == Kind::cuda_error || kind == Kind::corrupt ||
         kind == Kind::nccl_error;
}

class Parser {
 public:
  explicit Parser(const std::string& host) : name_(host) { description_.host.name = host; }

  bool line(const std::string& text) {
    if (text.empty() || text.front() == '#') return true;
    if (text.front() == '[') return section(text);
    const auto equals = text.find('=');
    if (equals == std::string::npos) return false;
    const std::string key = trimmed(text.substr(0, equals)), value = trimmed(text.substr(equals + 1));
    if (in_fault_) return set_fault_key(description_.faults.back(), key, value);
    Host other;  // another host's keys are checked all the same
    return set_host_key(ours_ ? description_.host : other, key, value);
  }

  // Faults that lack what they need, and those of other hosts, are only known at the end.
  bool finish() {
    for (const Fault& fault : description_.faults) {
      if (has_stage(fault.kind) && fault.stage == Stage::none) return false;
    }
    std::erase_if(description_.faults, [&](const Fault& fault) { return !fits(fault.host, name_); });
    return true;
  }

  Description take() { return std::move(description_); }

 private:
  bool section(const std::string& text) {
    const auto blank = text.find(' ');
    if (text.back() != ']' || blank == std::string::npos) return false;
    const std::string what = text.substr(1, blank - 1);
    const std::string name = trimmed(text.substr(blank, text.size() - 1 - blank));
    in_fault_ = what == "fault";
    if (!in_fault_) {
      ours_ = fits(name, name_);
      return what == "host" && !name.empty();
    }
    const auto kind = kind_of(name);
    if (kind) description_.faults.emplace_back().kind = *kind;
    return kind.has_value();
  }

  std::string name_;
  Description description_;
  bool in_fault_ = false;
  bool ours_ = true;
};

}  // namespace

Parsed parse(std::istream& text, const std::string& host) {
  Parser parser(host);
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    if (parser.line(trimmed(line))) continue;
    return {{}, "line " + std::to_string(number) + ": no such section, key or value: " + line};
  }
  if (!parser.finish())
    return {{}, "a fault of kind hang, crash, cuda_error, corrupt or nccl_error needs a stage"};
  return {parser.take(), std::nullopt};
}

}  // namespace nccl_check::doubles
