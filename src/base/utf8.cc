#include "base/utf8.h"

#include <cstdint>
#include <cstring>

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

size_t ValidUtf8Bytes(std::string_view bytes) {
  constexpr uint64_t kNotAscii = 0x8080808080808080;
  size_t at = 0;
  while (at < bytes.size()) {
    if (uint64_t word = 0; bytes.size() - at >= sizeof(word)) {
      std::memcpy(&word, bytes.data() + at, sizeof(word));
      if ((word & kNotAscii) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const Step step = Next(bytes.substr(at));
    if (!step.valid) break;
    at += step.bytes;
  }
  return at;
}

size_t AppendWholeCharacters(std::string_view bytes, std::string& text) {
  size_t at = 0;
  while (true) {
    const size_t valid = ValidUtf8Bytes(bytes.substr(at));
    text += bytes.substr(at, valid);
    at += valid;
    if (at == bytes.size()) return at;
    const Step malformed = Next(bytes.substr(at));
    if (malformed.cut) return at;
    text += kReplacement;
    at += malformed.bytes;
  }
}

std::string ToValidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (AppendWholeCharacters(bytes, text) < bytes.size()) text += kReplacement;
  return text;
}

}  // namespace pie
