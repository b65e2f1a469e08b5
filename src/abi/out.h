// Out: receives a text or words from a call of the bridge. A call that fails leaves the text of its
// error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/text.h"
#include "pie_bridge.h"

namespace pie::abi {

class Out {
 public:
  Out() : out_(pie_bridge::pie_out_new()) {}
  ~Out() { pie_bridge::pie_out_free(out_); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;

  pie_bridge::Out* get() { return out_; }
  std::string text() const { return std::string(View(pie_bridge::pie_out_read(out_))); }
  std::vector<uint32_t> words() const {
    const pie_bridge::Words words = pie_bridge::pie_out_read_words(out_);
    return {words.ptr, words.ptr + words.len};
  }
  // The error of a call that failed. It is never empty.
  std::string error() const {
    const std::string error = text();
    return error.empty() ? "the bridge failed (a bug in Pie)" : error;
  }

 private:
  pie_bridge::Out* out_;
};

}  // namespace pie::abi
