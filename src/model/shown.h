// A text from a file as an error may show it: whole characters, one line, not too long.
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
