#pragma once
// A site's rules over what the built-in ones decided.
#include <vector>

#include "environment/plan.hpp"

namespace nccl_check::environment {

// The first rule that fits decides for each variable; a variable that names a file (NCCL_TOPO_FILE) is set
// where that file is there.
void apply_site(const std::vector<Rule>& rules, const node::Facts& facts, const Situation& situation,
                Plan& plan);

}  // namespace nccl_check::environment
