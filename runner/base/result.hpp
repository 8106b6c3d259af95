#pragma once
// What a function that can fail returns: a value, or an error that a person can act on.
#include <string>
#include <utility>
#include <variant>

namespace nccl_check {

// The thing that failed and how; where (file:line, node, port); what to do. `where` and `remedy` may be
// empty.
struct Error {
  std::string what;
  std::string where;
  std::string remedy;

  [[nodiscard]] std::string text() const {
    std::string out = where.empty() ? what : where + ": " + what;
    if (!remedy.empty()) out += " (" + remedy + ")";
    return out;
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: a value is a result
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: so is an error

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status success() {
  return Unit{};
}

}  // namespace nccl_check
