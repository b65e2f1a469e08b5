#include "cli/columns.h"

#include <gtest/gtest.h>

namespace pie::cli {
namespace {

TEST(Columns, WideCharactersTakeTwoAndCombiningOnesNone) {
  EXPECT_EQ(Columns(""), 0u);
  EXPECT_EQ(Columns("abc"), 3u);
  EXPECT_EQ(Columns("ß€"), 2u);
  EXPECT_EQ(Columns("한국어"), 6u);
  EXPECT_EQ(Columns("日本 x"), 6u);
  EXPECT_EQ(Columns("🥧"), 2u);
  EXPECT_EQ(Columns("e\u0301"), 1u);
  EXPECT_EQ(Columns("\xff\xc3"), 2u);  // no UTF-8
}

TEST(Columns, FullLinesGoOnInTheNextRow) {
  const auto after = [](std::string_view text) {
    const Place place = After({0, 2}, text, 10);
    return std::pair(place.row, place.column);
  };
  EXPECT_EQ(after("1234567"), std::pair(0UL, 9UL));
  EXPECT_EQ(after("12345678"), std::pair(0UL, 10UL));
  EXPECT_EQ(after("123456789"), std::pair(1UL, 1UL));
  EXPECT_EQ(after("1234567한"), std::pair(1UL, 2UL));  // no half of a character at the edge
  EXPECT_EQ(after("12345678e\u0301"), std::pair(1UL, 1UL));
  EXPECT_EQ(after("a\nbc"), std::pair(1UL, 2UL));
  EXPECT_EQ(after("12345678\nb"), std::pair(1UL, 1UL));
}

}  // namespace
}  // namespace pie::cli
