// Makes text from a file fit for an error message: valid UTF-8, one line, of limited length.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace pie {

inline std::string Shown(std::string_view text) {
  constexpr size_t kLongest = 120;
  std::string shown = ToValidUtf8(text.substr(0, kLongest));
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7F'; };
  std::ranges::replace_if(shown, is_control, '?');
  return text.size() > kLongest ? shown + "…" : shown;
}

}  // namespace pie
