#include "base/one_line.h"

#include <gtest/gtest.h>

namespace pie {
namespace {

TEST(OneLine, KeepsTextOfAllLanguages) {
  EXPECT_EQ(OneLine("grüße, 世界 ~"), "grüße, 世界 ~");
  EXPECT_EQ(OneLine(""), "");
  EXPECT_EQ(OneLine("\xc2\xa0"), "\xc2\xa0") << "a space that is no control character";
}

TEST(OneLine, ControlCharactersDoNothing) {
  EXPECT_EQ(OneLine("a\nb\x1b[2J\x7f\r\t"), "a?b?[2J???");
  EXPECT_EQ(OneLine(std::string_view("\0x", 2)), "?x");
  EXPECT_EQ(OneLine("\xc2\x9b"
                    "2J"),
            "?2J")
      << "the short form of the escape sequence";
}

TEST(OneLine, MalformedTextBecomesValid) {
  EXPECT_EQ(OneLine("a\xff"), "a\xef\xbf\xbd");
  EXPECT_EQ(OneLine("a\xc2"), "a\xef\xbf\xbd");
  EXPECT_EQ(OneLine("\x9b"), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace pie
