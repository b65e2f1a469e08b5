#include "abi/out.h"

#include <gtest/gtest.h>

#include "abi/text.h"

namespace pie::abi {
namespace {

TEST(Out, ACallThatFailsLeavesItsError) {
  Out out;
  const auto* grammar =
      pie_bridge::pie_grammar_new(pie_bridge::GrammarKind::Regex, ToStr("("), 0, out.get());
  EXPECT_EQ(grammar, nullptr);
  EXPECT_FALSE(out.text().empty());
  EXPECT_EQ(out.error(), out.text());
}

TEST(Out, AnErrorIsNeverEmpty) {
  const Out out;
  EXPECT_EQ(out.text(), "");
  EXPECT_TRUE(out.words().empty());
  EXPECT_NE(out.error(), "");
}

TEST(Text, CrossesAndComesBack) {
  EXPECT_EQ(View(ToStr("")), "");
  EXPECT_EQ(View(ToStr("a\0b")), "a");
  EXPECT_EQ(View(ToStr(std::string_view("a\0b", 3))), std::string_view("a\0b", 3));
}

}  // namespace
}  // namespace pie::abi
