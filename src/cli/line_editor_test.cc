#include "cli/line_editor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pie::cli {
namespace {

TEST(LineBuffer, MovesAndErasesWholeCharacters) {
  const std::vector<std::string> none;
  LineBuffer line(&none);
  line.Insert("aß");
  line.Insert("€");
  line.Left();
  line.Left();
  EXPECT_EQ(line.cursor(), 1u);
  line.Insert("b");
  EXPECT_EQ(line.text(), "abß€");
  line.Delete();
  EXPECT_EQ(line.text(), "ab€");
  line.End();
  line.Backspace();
  EXPECT_EQ(line.text(), "ab");
  line.Home();
  line.Backspace();
  line.Left();
  EXPECT_EQ(line.text(), "ab");
  line.Right();
  line.EraseToEnd();
  EXPECT_EQ(line.text(), "a");
}

TEST(LineBuffer, ErasesWords) {
  const std::vector<std::string> none;
  LineBuffer line(&none);
  line.Insert("one two  three ");
  line.EraseWord();
  EXPECT_EQ(line.text(), "one two  ");
  line.EraseWord();
  EXPECT_EQ(line.text(), "one ");
  line.EraseToStart();
  EXPECT_EQ(line.text(), "");
}

TEST(LineBuffer, GoesThroughTheHistory) {
  const std::vector<std::string> history = {"first", "second"};
  LineBuffer line(&history);
  line.Insert("third");
  line.Newer();
  EXPECT_EQ(line.text(), "third");
  line.Older();
  EXPECT_EQ(line.text(), "second");
  line.Older();
  line.Older();
  EXPECT_EQ(line.text(), "first");
  line.Newer();
  line.Newer();
  EXPECT_EQ(line.text(), "third");
}

TEST(LineEditor, KeepsTheHistory) {
  const std::string file = std::filesystem::path(testing::TempDir()) / "history";
  std::filesystem::remove(file);
  {
    LineEditor editor(file);
    editor.Remember("one");
    editor.Remember("one");
    editor.Remember("two\nlines");
    editor.Remember("");
  }
  std::ifstream stream(file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  EXPECT_EQ(text, "one\ntwo lines\n");
}

}  // namespace
}  // namespace pie::cli
