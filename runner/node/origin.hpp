#pragma once
// Where the fields of a fact were read, and which of them could not be.
#include <map>
#include <set>
#include <string>

namespace nccl_check::node {

class Origin {
 public:
  void read(const std::string& field, const std::string& place) { set(field, place, true); }
  // `known` false: the place was looked at and did not say.
  void set(const std::string& field, const std::string& place, bool known) {
    places_[field] = place;
    if (known)
      unknown_.erase(field);
    else
      unknown_.insert(field);
  }
  [[nodiscard]] std::string from(const std::string& field) const {
    const auto found = places_.find(field);
    return found == places_.end() ? "" : found->second;
  }
  // Also what was never looked at.
  [[nodiscard]] bool unknown(const std::string& field) const {
    return unknown_.count(field) != 0 || places_.count(field) == 0;
  }
  [[nodiscard]] const std::map<std::string, std::string>& places() const { return places_; }

 private:
  std::map<std::string, std::string> places_;
  std::set<std::string> unknown_;
};

}  // namespace nccl_check::node
