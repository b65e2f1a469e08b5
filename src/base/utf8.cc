#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace pie {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Step {
  size_t bytes = 1;    // how many bytes this step covers
  bool valid = false;  // the bytes are one character
  bool cut = false;    // the bytes are a prefix of a character, and the text ends here
};

// Well-formed sequences as in table 3-7 of the Unicode standard: the first byte decides the range
// of the second; all further bytes have one range.
Step Next(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == s.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

}  // namespace

size_t AppendWholeCharacters(std::string_view bytes, std::string& text) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Step step = Next(bytes.substr(at));
    if (step.cut) break;
    text += step.valid ? bytes.substr(at, step.bytes) : kReplacement;
    at += step.bytes;
  }
  return at;
}

std::string ToValidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (AppendWholeCharacters(bytes, text) < bytes.size()) text += kReplacement;
  return text;
}

}  // namespace pie
