#include "base/one_line.h"

#include "base/utf8.h"

namespace pie {

std::string OneLine(std::string_view text) {
  const std::string valid = ToValidUtf8(text);
  std::string line;
  line.reserve(valid.size());
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    const auto next = i + 1 < valid.size() ? static_cast<unsigned char>(valid[i + 1]) : 0;
    if (byte < 0x20 || byte == 0x7f) {
      line += '?';
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F
      line += '?';
      ++i;
    } else {
      line += valid[i];
    }
  }
  return line;
}

}  // namespace pie
