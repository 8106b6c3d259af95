#include "node/record.hpp"

#include <algorithm>
#include <filesystem>

#include "base/files.hpp"
#include "node/facts.hpp"
#include "node/scrub.hpp"

namespace nccl_check::node {
namespace {

namespace fs = std::filesystem;

Status make_empty(const std::string& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return Error{"cannot make the folder: " + code.message(), folder, ""};
  if (!fs::is_empty(folder, code) || code) return Error{"is not empty", folder, "name a new folder"};
  return success();
}

// What is no one's name stays as it is: a PCI address, an interface's name.
Status write_all(const Looked& looked, const std::string& folder, Scrub& scrub) {
  std::error_code code;
  for (const auto& path : looked.folders) {
    fs::create_directories(folder + path, code);
    if (code) return Error{"cannot make the folder: " + code.message(), folder + path, ""};
  }
  for (const auto& [path, target] : looked.links) {
    const fs::path at = folder + path;
    fs::create_directories(at.parent_path(), code);
    fs::create_symlink(target, at, code);
    if (code) return Error{"cannot make the link: " + code.message(), at.string(), ""};
  }
  for (const auto& [path, text] : looked.files)
    if (auto done = write_file_atomically(folder + path, scrub.text(text), 0644); !done) return done;
  for (const auto& path : looked.others) {
    if (looked.files.count(path) != 0) continue;
    if (auto done = write_file_atomically(folder + path, "", 0644); !done) return done;
  }
  return success();
}

}  // namespace

Result<std::size_t> record(const std::string& root, const std::string& folder,
                           const std::vector<std::string>& also) {
  if (auto made = make_empty(folder); !made) return made.error();
  Tree tree(root);
  tree.record();
  auto links = read_links(tree);
  if (!links) return links.error();
  const auto facts = read_facts(tree);
  for (const auto& path : also) (void)tree.text(path);
  Scrub scrub(facts.system.host);
  const Looked& looked = *tree.looked();
  if (auto done = write_all(looked, folder, scrub); !done) return done.error();
  std::size_t count = looked.files.size() + looked.links.size();
  if (facts.system.limits.shm) {
    const auto text = std::to_string(*facts.system.limits.shm) + "\n";
    if (auto done = write_file_atomically(folder + recorded_shm, text, 0644); !done) return done.error();
    ++count;
  }
  // Of a copy of somebody's files there is nothing that the kernel said.
  const bool asked =
      std::all_of(links->begin(), links->end(), [](const Link& l) { return l.from == "rtnetlink"; });
  if (!asked) return count;
  for (auto& link : *links)
    for (auto& address : link.addresses) address = scrub.address(address);
  if (auto done = write_file_atomically(folder + recorded_links, links_text(*links), 0644); !done)
    return done.error();
  return count + 1;
}

}  // namespace nccl_check::node
