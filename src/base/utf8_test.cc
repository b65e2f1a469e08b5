#include "base/utf8.h"

#include <gtest/gtest.h>

namespace pie {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

TEST(Utf8, LeavesATruncatedCharacter) {
  const std::string text = "aé€😀";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    std::string out;
    const size_t used = AppendWholeCharacters(std::string_view(text).substr(0, cut), out);
    EXPECT_EQ(out, text.substr(0, used));
    EXPECT_LT(cut - used, 4U);
    // The rest of the bytes, with those that follow, is exactly the missing text.
    std::string rest;
    EXPECT_EQ(AppendWholeCharacters(std::string_view(text).substr(used), rest), text.size() - used);
    EXPECT_EQ(out + rest, text);
  }
}

TEST(Utf8, ReplacesMalformedBytes) {
  const std::string bad = kBad;
  EXPECT_EQ(ToValidUtf8("a\xFFz"), "a" + bad + "z");
  EXPECT_EQ(ToValidUtf8("\x80\x80"), bad + bad);
  EXPECT_EQ(ToValidUtf8("\xC0\xAF"), bad + bad);                      // overlong
  EXPECT_EQ(ToValidUtf8("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(ToValidUtf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // past U+10FFFF
  EXPECT_EQ(ToValidUtf8("\xE2\x82z"), bad + "z");  // truncated by another character
  EXPECT_EQ(ToValidUtf8("\xE2\x82"), bad);         // truncated by the end
  EXPECT_EQ(ToValidUtf8("é"), "é");
  EXPECT_EQ(ToValidUtf8(""), "");
}

TEST(Utf8, CountsWellFormedBytes) {
  const std::string long_text = "sixteen ASCII bytes, then é and €, and twenty more of ASCII";
  EXPECT_EQ(ValidUtf8Bytes(""), 0u);
  EXPECT_EQ(ValidUtf8Bytes(long_text), long_text.size());
  for (size_t at = 0; at < long_text.size(); ++at) {
    if ((long_text[at] & 0x80) != 0) continue;
    std::string bad = long_text;
    bad[at] = '\xFF';
    EXPECT_EQ(ValidUtf8Bytes(bad), at);
    EXPECT_EQ(ToValidUtf8(bad), long_text.substr(0, at) + kBad + long_text.substr(at + 1));
  }
}

}  // namespace
}  // namespace pie
