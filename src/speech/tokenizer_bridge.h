// What the ways to load a tokenizer share. Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "pie_bridge.h"
#include "speech/model.h"

namespace pie {

inline pie_bridge::Str ToStr(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view View(pie_bridge::Str text) {
  return {reinterpret_cast<const char*>(text.ptr), text.len};
}

// What the bridge answers with: a text or words.
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

// Takes what the bridge has loaded.
std::unique_ptr<Tokenizer> WrapTokenizer(pie_bridge::Tokenizer* raw);

// Loading needs several times what it leaves behind, and the allocator would keep it.
void ReturnFreedMemory();

}  // namespace pie
