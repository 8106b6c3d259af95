#include "node/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <memory>
#include <utility>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace nccl_check::node {
namespace {

constexpr int most_links = 40;  // in one path, as the kernel's own MAXSYMLINKS

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

std::string last_part(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == path.npos ? path : path.substr(slash + 1));
}

Tree::Tree(std::string root) : root_(std::move(root)) {
  while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
  if (root_.empty()) root_.assign(1, '/');
}

std::string Tree::under(const std::string& path) const {
  if (!live()) return root_ + path;
  return path.empty() ? root_ : path;
}

const std::string* Tree::link(const std::string& path) {
  const auto [at, is_new] = known_links_.try_emplace(path);
  if (is_new) {
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlink(under(path).c_str(), target.data(), target.size());
    if (size > 0 && static_cast<std::size_t>(size) < target.size())
      at->second.emplace(target.data(), static_cast<std::size_t>(size));
  }
  if (!at->second) return nullptr;
  if (looked_) looked_->links[path] = *at->second;
  return &*at->second;
}

std::optional<std::string> Tree::resolve(const std::string& path, bool follow) {
  auto todo = split(path, '/');
  std::reverse(todo.begin(), todo.end());
  std::string done;
  int links = 0;
  while (!todo.empty()) {
    const std::string part = std::move(todo.back());
    todo.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      done = parent_of(done);
      continue;
    }
    std::string next = done;
    next.append(1, '/').append(part);
    const std::string* target = todo.empty() && !follow ? nullptr : link(next);
    if (target == nullptr) {
      done = next;
      continue;
    }
    if (++links > most_links) return std::nullopt;
    if (target->front() == '/') done.clear();
    auto parts = split(*target, '/');
    todo.insert(todo.end(), parts.rbegin(), parts.rend());
  }
  return done;
}

std::optional<std::string> Tree::text(const std::string& path, std::size_t most_bytes) {
  const auto real_path = resolve(path, true);
  if (!real_path) return std::nullopt;
  const UniqueFd file(::open(under(*real_path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string out;
  std::array<char, 4096> part{};
  while (out.size() < most_bytes) {
    const ssize_t size = ::read(file.get(), part.data(), std::min(part.size(), most_bytes - out.size()));
    if (size < 0) return std::nullopt;
    if (size == 0) break;
    out.append(part.data(), static_cast<std::size_t>(size));
  }
  if (looked_) looked_->files[*real_path] = out;
  return out;
}

std::optional<std::string> Tree::line(const std::string& path) {
  const auto all = text(path, 4096);
  if (!all) return std::nullopt;
  const auto first = trim(std::string_view(*all).substr(0, all->find('\n')));
  if (first.empty()) return std::nullopt;
  return printable(first, 1024);
}

std::optional<long long> Tree::number(const std::string& path) {
  const auto first = line(path);
  if (!first) return std::nullopt;
  std::string_view digits = *first;
  int base = 10;
  if (digits.starts_with("0x")) {
    digits.remove_prefix(2);
    base = 16;
  }
  long long value = 0;
  const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (code != std::errc{} || stop != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<std::vector<std::string>> Tree::entries(const std::string& path, std::string_view prefix) {
  const auto real_path = resolve(path, true);
  if (!real_path) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(under(*real_path).c_str()), &::closedir);
  if (!folder) return std::nullopt;
  if (looked_) looked_->folders.insert(*real_path);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || !name.starts_with(prefix)) continue;
    names.push_back(name);
    if (looked_) there(*real_path + "/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Tree::there(const std::string& path) {
  const auto real_path = resolve(path, false);
  struct stat info {};
  if (!real_path || ::lstat(under(*real_path).c_str(), &info) != 0) return false;
  if (looked_) {
    if (S_ISLNK(info.st_mode)) {
      link(*real_path);
    } else if (S_ISDIR(info.st_mode)) {
      looked_->folders.insert(*real_path);
    } else {
      looked_->others.insert(*real_path);
    }
  }
  return true;
}

std::optional<std::string> Tree::points_to(const std::string& path) {
  const auto real_path = resolve(path, false);
  if (!real_path) return std::nullopt;
  const std::string* target = link(*real_path);
  if (target == nullptr) return std::nullopt;
  return *target;
}

std::optional<std::string> Tree::real(const std::string& path) {
  auto real_path = resolve(path, true);
  if (!real_path || !there(*real_path)) return std::nullopt;
  return real_path;
}

}  // namespace nccl_check::node
