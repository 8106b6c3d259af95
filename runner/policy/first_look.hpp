#pragma once
// Whether a job that did not ask for a check needs anything at all. Needs nothing but the C library, since it
// runs in every job's prolog.
#include <string_view>

namespace nccl_check::policy {

// With `when` not set or "requested" at the file's top there is nothing to do. Looks at lines, parses
// nothing; whatever is not plain, not readable or not trusted is left to load_config().
enum class FirstLook { nothing_to_do, look_closer };
FirstLook first_look(std::string_view text);
FirstLook first_look_at(const char* path);

// The option of a plugin called nccl_check, --nccl-check, as slurmd gives it to a prolog: with SPANK_ in
// front.
constexpr const char* option_variable = "SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check";

}  // namespace nccl_check::policy
