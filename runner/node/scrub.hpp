#pragma once
// Takes out of a recording what tells whose node it is: MAC addresses, GUIDs and GIDs, GPUs' UUIDs, IP
// addresses and host names. The same one becomes the same stand-in everywhere; what it is stays: a network
// stays one network, a link-local address link-local, loopback loopback.
#include <map>
#include <string>

#include "node/interfaces.hpp"

namespace nccl_check::node {

class Scrub {
 public:
  explicit Scrub(const std::string& host);  // the node's name; its short form is taken out too
  std::string text(const std::string& from);
  Address address(const Address& from);

 private:
  std::string word(const std::string& from);
  std::string hexadecimal(const std::string& from, const std::string& shape);

  std::string host_, short_host_;
  std::map<std::string, std::string> known_;
  std::map<std::string, unsigned> networks_;  // the upper bytes -> number
  std::map<std::string, unsigned> hosts_;     // whole address -> number
};

}  // namespace nccl_check::node
