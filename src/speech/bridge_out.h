// Types for calls across the bridge to the text crate. Private to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pie_bridge.h"

namespace pie {

inline pie_bridge::Str ToStr(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view View(pie_bridge::Str text) {
  return {reinterpret_cast<const char*>(text.ptr), text.len};
}

// Receives a text or words from the bridge. A call that fails leaves the text of its error.
class BridgeOut {
 public:
  BridgeOut() : out_(pie_bridge::pie_out_new()) {}
  ~BridgeOut() { pie_bridge::pie_out_free(out_); }
  BridgeOut(const BridgeOut&) = delete;
  BridgeOut& operator=(const BridgeOut&) = delete;

  pie_bridge::Out* get() { return out_; }
  std::string text() const { return std::string(View(pie_bridge::pie_out_read(out_))); }
  std::vector<uint32_t> words() const {
    const pie_bridge::Words words = pie_bridge::pie_out_read_words(out_);
    return {words.ptr, words.ptr + words.len};
  }

 private:
  pie_bridge::Out* out_;
};

}  // namespace pie
