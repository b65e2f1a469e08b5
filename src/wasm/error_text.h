// ErrorText: receives the text of an error of the bridge.
#pragma once

#include <string>

#include "pie_bridge.h"
#include "wasm/text.h"

namespace pie::wasm {

class ErrorText {
 public:
  ErrorText() : out_(pie_bridge::pie_out_new()) {}
  ~ErrorText() { pie_bridge::pie_out_free(out_); }
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  pie_bridge::Out* get() { return out_; }
  bool empty() const { return View(pie_bridge::pie_out_read(out_)).empty(); }
  std::string text() const {
    std::string text(View(pie_bridge::pie_out_read(out_)));
    return text.empty() ? "the bridge failed (a bug in Pie)" : text;
  }

 private:
  pie_bridge::Out* out_;
};

}  // namespace pie::wasm
