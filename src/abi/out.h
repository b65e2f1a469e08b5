// Out: receives a text or words from a call of the bridge. A call that fails leaves the text of its
// error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pie_bridge.h"

namespace pie::abi {

class Out {
 public:
  Out();
  ~Out();
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;

  pie_bridge::Out* get() { return out_; }
  std::string text() const;
  std::vector<uint32_t> words() const;
  // The error of a call that failed. It is never empty.
  std::string error() const;

 private:
  pie_bridge::Out* out_;
};

}  // namespace pie::abi
