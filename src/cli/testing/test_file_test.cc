#include "cli/testing/test_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace pie::cli {
namespace {

class TestFileTest : public testing::Test {
 protected:
  TestFileTest() { std::filesystem::create_directories(dir_); }
  ~TestFileTest() override { std::filesystem::remove_all(dir_); }

  Result<std::vector<TestCase>> Read(std::string_view text) {
    std::ofstream(path_) << text;
    return ReadTests(path_);
  }
  std::string ErrorOf(std::string_view text) {
    const auto tests = Read(text);
    EXPECT_FALSE(tests) << text;
    return tests ? "" : tests.error().text.substr(path_.size());
  }

  const std::filesystem::path dir_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("pie-tests-{}", getpid());
  const std::string path_ = dir_ / "some.toml";
};

TEST_F(TestFileTest, ReadsATest) {
  const auto tests = Read(R"(
[[test]]
name = "all of it"
input = { prompt = "hi", n = 2 }
messages = ["bye"]
returns = { done = true }
files = { "notes/a.txt" = "A" }
seed = 7
timeout_secs = 5

[[test.answer]]
when = "hi"
say = ["a", "b"]
weights = [1, 2.5]
end_turn = false

[[test.session]]
send = "one"
[[test.session]]
expect_contains = "two"

[[test]]
continues = true
error = "no such"
)");
  ASSERT_TRUE(tests) << tests.error().text;
  ASSERT_EQ(tests->size(), 2U);
  const TestCase& test = (*tests)[0];
  EXPECT_EQ(test.name, "all of it");
  EXPECT_EQ(test.input.dump(), R"({"n":2,"prompt":"hi"})");
  ASSERT_EQ(test.answers.size(), 1U);
  EXPECT_EQ(test.answers[0].weights, (std::vector<double>{1, 2.5}));
  EXPECT_FALSE(test.answers[0].end_turn);
  ASSERT_EQ(test.session.size(), 3U);
  EXPECT_EQ(test.session[0].text, "one");
  EXPECT_EQ(test.session[1].expected.how, Expectation::How::kContains);
  EXPECT_EQ(test.session[2].expected.text, "bye");
  EXPECT_EQ(test.returns->json.dump(), R"({"done":true})");
  EXPECT_EQ(test.files.at("notes/a.txt"), "A");
  EXPECT_EQ(test.seed, 7U);
  EXPECT_TRUE((*tests)[1].continues);
  EXPECT_EQ((*tests)[1].name, "line 22");
}

TEST_F(TestFileTest, MistakesAreNamedWithTheirLines) {
  EXPECT_EQ(ErrorOf(""), " has no tests; each begins with [[test]]");
  EXPECT_TRUE(ErrorOf("[[test]]\nretruns = 1").starts_with(":2: unknown key 'retruns'; the keys"));
  EXPECT_EQ(ErrorOf("[[test]]\n[[test.answer]]\nwhen = 'x'"),
            ":2: an answer needs 'say', the text that the model says");
  EXPECT_TRUE(ErrorOf("[[test]]\nanswer = [{ say = 'a', weights = [1, 2] }]")
                  .starts_with(":2: 'weights' must be a list of positive numbers, one for each"));
  EXPECT_EQ(ErrorOf("[[test]]\nsession = [{ send = 'a', expect = 'b' }]"),
            ":2: a step of 'session' has one key, such as send or expect");
  EXPECT_TRUE(
      ErrorOf("[[test]]\nreturns_matches = '('").starts_with(":2: 'returns_matches' is not"));
  EXPECT_EQ(ErrorOf("[[test]]\nreturns = 'a'\nreturns_contains = 'b'"),
            ":3: give 'returns' in one form only");
  EXPECT_EQ(ErrorOf("[[test]]\ncontinues = true"),
            ":1: the first test of a file continues no other");
  EXPECT_TRUE(
      ErrorOf("[[test]]\nfiles = { '../x' = 'a' }").starts_with(":1: '../x' must be a path"));
  EXPECT_TRUE(ErrorOf("[[test]]\nstatus = 200").starts_with(":1: 'status' and 'response' belong"));
  EXPECT_TRUE(ErrorOf("[[test]]\nname = ").starts_with(":2: "));
}

TEST(Expectation, SaysWhereTextsDiffer) {
  const Expectation is{.text = "Hello, Ada"};
  EXPECT_FALSE(is.DifferenceOf("it", "Hello, Ada"));
  EXPECT_EQ(*is.DifferenceOf("it", "Hello, ada"),
            "it is not as expected:\n"
            "  expected \"Hello, Ada\"\n"
            "  got      \"Hello, ada\"\n"
            "                   ^");
  EXPECT_EQ(*Expectation{.text = "a\nb\nc"}.DifferenceOf("it", "a\nx\nc"),
            "it is not as expected; expected lines have -, others +:\n"
            "    a\n"
            "  - b\n"
            "  + x\n"
            "    c");
}

TEST(Expectation, ComparesValuesAsJson) {
  const Expectation json{.how = Expectation::How::kIsJson, .json = {{"n", 1}, {"ok", true}}};
  EXPECT_FALSE(json.DifferenceOf("it", R"({"ok": true, "n": 1.0})"));
  EXPECT_TRUE(json.DifferenceOf("it", "yes")->starts_with("it is not JSON"));
  EXPECT_TRUE(json.DifferenceOf("it", R"({"n": 2, "ok": true})"));
  const Expectation matches{.how = Expectation::How::kMatches, .text = "^a+$"};
  EXPECT_FALSE(matches.DifferenceOf("it", "aaa"));
  EXPECT_TRUE(matches.DifferenceOf("it", "aab"));
}

}  // namespace
}  // namespace pie::cli
