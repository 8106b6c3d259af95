#pragma once
// Copies what read_facts() read into a folder, so that the facts can be read again elsewhere.
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/tree.hpp"

namespace nccl_check::node {

// Reads the facts of `root` and what `also` names there, and writes what was read below `folder`, which must
// be new or empty. Whose node it is is taken out (scrub.hpp). Returns the number of files and links.
Result<std::size_t> record(const std::string& root, const std::string& folder,
                           const std::vector<std::string>& also = {});

}  // namespace nccl_check::node
