#include "base/one_line.h"

#include "base/utf8.h"

namespace pie {

size_t ControlCharacterAt(std::string_view text, size_t place) {
  const auto byte = static_cast<unsigned char>(text[place]);
  if (byte < 0x20 || byte == 0x7f) return 1;
  if (byte != 0xc2 || place + 1 == text.size()) return 0;
  const auto next = static_cast<unsigned char>(text[place + 1]);
  return next >= 0x80 && next < 0xa0 ? 2 : 0;  // U+0080 to U+009F
}

std::string OneLine(std::string_view text) {
  const std::string valid = ToValidUtf8(text);
  std::string line;
  line.reserve(valid.size());
  for (size_t i = 0; i < valid.size();) {
    const size_t control = ControlCharacterAt(valid, i);
    line += control == 0 ? valid[i] : '?';
    i += control == 0 ? 1 : control;
  }
  return line;
}

}  // namespace pie
