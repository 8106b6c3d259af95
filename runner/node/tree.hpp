#pragma once
// Files under a given root, "/" on a live node. Everything that is known of a node is read through this, so
// that a recorded tree gives the same facts, and so that it is known which files a recording needs.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nccl_check::node {

// What was looked at, by its path inside the root, links resolved.
struct Looked {
  std::map<std::string, std::string> files;  // path -> what was read of it
  std::map<std::string, std::string> links;  // path -> where it points, as the link says it
  std::set<std::string> folders;             // that were there, or were listed
  std::set<std::string> others;              // files that were there and not read
};

class Tree {
 public:
  explicit Tree(std::string root);  // an empty root is "/"
  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] bool live() const { return root_ == "/"; }

  // Paths are absolute inside the root; a symbolic link never leads out of it. Nothing: not there, or it
  // could not be read, which means unknown. At most `most_bytes` are read.
  std::optional<std::string> text(const std::string& path, std::size_t most_bytes = 65536);
  // The first line without blanks around it; nothing also where that is empty (the speed of a port that is
  // down).
  std::optional<std::string> line(const std::string& path);
  std::optional<long long> number(const std::string& path);  // decimal, or hexadecimal after 0x
  // The names in a folder that start with `prefix`, sorted; nothing: there is no such folder.
  std::optional<std::vector<std::string>> entries(const std::string& path, std::string_view prefix = "");
  bool there(const std::string& path);  // also a link that leads nowhere
  // What the link itself says; nothing: it is no link.
  std::optional<std::string> points_to(const std::string& path);
  // Where the path leads when every link is resolved; nothing: nowhere.
  std::optional<std::string> real(const std::string& path);

  void record() { looked_.emplace(); }
  [[nodiscard]] const std::optional<Looked>& looked() const { return looked_; }

 private:
  std::string under(const std::string& path) const;
  // `follow`: the last component too.
  std::optional<std::string> resolve(const std::string& path, bool follow);
  const std::string* link(const std::string& path);  // nothing: no link

  std::string root_;
  std::map<std::string, std::optional<std::string>> known_links_;
  std::optional<Looked> looked_;
};

std::string last_part(std::string_view path);  // "0000:41:00.0" of ".../0000:41:00.0"

}  // namespace nccl_check::node
