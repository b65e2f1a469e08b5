#include "cli/arguments.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace pie::cli {
namespace {

using nlohmann::json;

json Parse(const std::vector<std::string>& arguments) {
  auto parsed = ParseArguments(arguments);
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed ? *parsed : json();
}

TEST(ParseArguments, NoArgumentsGiveAnEmptyObject) {
  EXPECT_EQ(Parse({}), json::object());
}

TEST(ParseArguments, KebabBecomesSnake) {
  EXPECT_EQ(Parse({"--max-new-tokens", "8"}), (json{{"max_new_tokens", 8}}));
  EXPECT_EQ(Parse({"--max_tokens", "8"}), (json{{"max_tokens", 8}}));
  EXPECT_EQ(Parse({"--a", "x-y"}), (json{{"a", "x-y"}})) << "values are kept";
}

TEST(ParseArguments, ValuesAreTypedByTheirForm) {
  const std::pair<const char*, json> cases[] = {
      {"8", 8},
      {"-8", -8},
      {"+8", 8},
      {"0", 0},
      {"1.5", 1.5},
      {"-.5", -0.5},
      {"1.", 1.0},
      {"1e3", 1000.0},
      {"2E-2", 0.02},
      {"9223372036854775807", INT64_MAX},
      {"18446744073709551615", UINT64_MAX},
      {"true", true},
      {"false", false},
      {"True", "True"},
      {"", ""},
      {"text", "text"},
      {"1a", "1a"},
      {"1.2.3", "1.2.3"},
      {"e5", "e5"},
      {".", "."},
      {"-", "-"},
      {"nan", "nan"},
      {"inf", "inf"},
      {"0x10", "0x10"},
      {"1e999", "1e999"},
      {"null", "null"},
      {"[1]", "[1]"},
  };
  for (const auto& [text, wanted] : cases) {
    const json value = Parse({"--key", text})["key"];
    EXPECT_EQ(value, wanted) << text;
    EXPECT_EQ(value.type_name(), std::string(wanted.type_name())) << text;
  }
  EXPECT_TRUE(Parse({"--key", "8"})["key"].is_number_integer());
  EXPECT_TRUE(Parse({"--key", "8.0"})["key"].is_number_float());
}

TEST(ParseArguments, NegativeNumbersAreValuesNotFlags) {
  EXPECT_EQ(Parse({"--from", "-5", "--to", "-0.5"}), (json{{"from", -5}, {"to", -0.5}}));
}

TEST(ParseArguments, DeclaredTextsStayTexts) {
  const auto parsed =
      ParseArguments({"--prompt", "042", "--n=042", "--my-name=true"}, {"prompt", "my_name"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, nlohmann::json::parse(R"({"prompt":"042","n":42,"my_name":"true"})"));
}

TEST(ParseArguments, DeclaredNamesKeepTheirHyphens) {
  const auto parsed =
      ParseArguments({"--max-tokens", "8", "--my-name=042", "--is_greedy", "--other-one", "2"},
                     {"my-name"}, {"max-tokens", "my-name", "is-greedy", "other_one", "other-one"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, nlohmann::json::parse(
                         R"({"max-tokens":8,"my-name":"042","is-greedy":true,"other_one":2})"));
}

TEST(ParseArguments, BareFlagsAreTrue) {
  EXPECT_EQ(Parse({"--greedy"}), (json{{"greedy", true}}));
  EXPECT_EQ(Parse({"--greedy", "--n", "2", "--fast"}),
            (json{{"greedy", true}, {"n", 2}, {"fast", true}}));
}

TEST(ParseArguments, KeyEqualsValue) {
  EXPECT_EQ(Parse({"--n=2", "--name=a=b", "--empty=", "--flag=--x"}),
            (json{{"n", 2}, {"name", "a=b"}, {"empty", ""}, {"flag", "--x"}}));
}

TEST(ParseArguments, LeftoversArePositional) {
  EXPECT_EQ(Parse({"hello", "--n", "2", "3", "-x"}),
            (json{{"n", 2}, {"_positional", {"hello", 3, "-x"}}}));
  EXPECT_EQ(Parse({"--", "a"}), (json{{"_positional", {"--", "a"}}}));
}

TEST(ParseArguments, ATextWithSpacesIsAValueThoughItBeginsLikeAFlag) {
  EXPECT_EQ(Parse({"--argv", "--mode save -v", "--n=1 2"}),
            (json{{"argv", "--mode save -v"}, {"n", "1 2"}}));
  EXPECT_EQ(Parse({"--- a = b", "--n", "3"}), (json{{"n", 3}, {"_positional", {"--- a = b"}}}));
}

TEST(ParseArguments, LastOneWins) {
  EXPECT_EQ(Parse({"--n", "1", "--n", "2"}), (json{{"n", 2}}));
}

TEST(ParseArguments, LongNumbersAreText) {
  const std::string digits(1'000'000, '7');
  EXPECT_EQ(Parse({"--key", digits})["key"], digits);
}

TEST(ParseArguments, TextThatIsNotUtf8IsRefused) {
  auto parsed = ParseArguments({"--name", "\xff"});
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().text.find("is not UTF-8"), std::string::npos);
  EXPECT_EQ(Parse({"--name", "Zoë"}), (json{{"name", "Zoë"}}));
}

class ReadInputTest : public testing::Test {
 protected:
  std::string WriteFile(std::string_view text) {
    std::ofstream(path_, std::ios::binary) << text;
    return "@" + path_.string();
  }
  ~ReadInputTest() override { std::filesystem::remove(path_); }
  static std::string ErrorOf(const std::string& input, size_t most = 1000) {
    auto read = ReadInput(input, most);
    EXPECT_FALSE(read) << input.substr(0, 80);
    return read ? "" : read.error().text;
  }
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("pie-input-{}", getpid());
};

TEST_F(ReadInputTest, Json) {
  EXPECT_EQ(*ReadInput(R"({"a": [1, "x"]})", 100), (json{{"a", {1, "x"}}}));
  EXPECT_EQ(*ReadInput("3", 100), json(3));
}

TEST_F(ReadInputTest, File) {
  EXPECT_EQ(*ReadInput(WriteFile("{\"a\": 1}\n"), 100), (json{{"a", 1}}));
  EXPECT_EQ(ErrorOf("@/nowhere.json"), "cannot read the input file /nowhere.json");
}

TEST_F(ReadInputTest, ErrorsNameThePlace) {
  const std::string error = ErrorOf("{\"a\": ");
  EXPECT_TRUE(error.starts_with("--input is not valid JSON: parse error at line 1, column 7"))
      << error;
  EXPECT_NE(ErrorOf("{} {}"), "");
  EXPECT_NE(ErrorOf("\"\xff\""), "");
  EXPECT_NE(ErrorOf(WriteFile("")), "");
}

TEST_F(ReadInputTest, TheLimitAppliesToTextFilesAndEndlessFiles) {
  const std::string wanted = "the input is too large: at most 1 MiB are allowed";
  const size_t most = 1 << 20;
  EXPECT_TRUE(ReadInput("\"" + std::string(most - 2, 'x') + "\"", most));
  EXPECT_EQ(ErrorOf("\"" + std::string(most - 1, 'x') + "\"", most), wanted);
  EXPECT_TRUE(ReadInput(WriteFile("\"" + std::string(most - 2, 'x') + "\""), most));
  EXPECT_EQ(ErrorOf(WriteFile("\"" + std::string(most - 1, 'x') + "\""), most), wanted);
  EXPECT_EQ(ErrorOf("@/dev/zero", most), wanted);
}

TEST_F(ReadInputTest, LimitsNesting) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ReadInput(nested(512), 1 << 20));
  EXPECT_EQ(ErrorOf(nested(513), 1 << 20), "--input is nested deeper than 512 levels");
  EXPECT_EQ(ErrorOf(std::string(1 << 19, '['), 1 << 20),
            "--input is nested deeper than 512 levels");
  EXPECT_TRUE(ReadInput("\"\\\"" + std::string(600, '[') + "\"", 1 << 20))
      << "brackets in a text do not count";
}

}  // namespace
}  // namespace pie::cli
