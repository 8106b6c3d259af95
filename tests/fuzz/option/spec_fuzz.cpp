// The words of --nccl-check and --nccl-env, as a user could send them to root: every text is either taken,
// and then means the same when written out and read again, or refused with a place inside it that can be
// shown.
#include <cstdio>
#include <cstdlib>

#include "option/spec.hpp"

namespace {

using namespace nccl_check::option;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check_refusal(const BadWord& bad) {
  require(!bad.what.empty() && !bad.allowed.empty(), "a refusal without words");
  require(bad.text.size() <= most_bytes, "a refusal that holds a long text");
  require(bad.column + bad.length <= bad.text.size(), "a place outside the text");
  const auto shown = bad.display(check_name) + bad.line();
  require(shown.size() < 2048, "a long message");
  for (const char c : shown)
    require(c == '\n' || (c >= 0x20 && c < 0x7f), "a message with control characters");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse(text);
  if (const auto* spec = std::get_if<Spec>(&parsed)) {
    const auto written = canonical(*spec);
    const auto again = parse(written);
    require(std::holds_alternative<Spec>(again), "the canonical text is refused");
    require(std::get<Spec>(again) == *spec, "the canonical text means something else");
    require(canonical(std::get<Spec>(again)) == written, "the canonical text has two forms");
  } else {
    check_refusal(std::get<BadWord>(parsed));
  }
  const auto environment = parse_environment(text);
  if (const auto* bad = std::get_if<BadWord>(&environment)) check_refusal(*bad);
  return 0;
}
