#include "host/manifest.h"

#include <gtest/gtest.h>

#include <string>

namespace pie::host {
namespace {

constexpr std::string_view kGood = R"([package]
name = "text-completion"
version = "0.1.0"
description = "Answers"
authors = []

[runtime]
core = "^0.2.0"

[parameters]
prompt = { type = "string", description = "What to ask" }
n = { type = "int", optional = true }
heat = { type = "float", optional = true }
greedy = { type = "bool", optional = true }
)";

std::string ErrorOf(std::string_view text) {
  auto manifest = ParseManifest(text, "Pie.toml");
  EXPECT_FALSE(manifest) << text;
  return manifest ? "" : manifest.error().text;
}

TEST(Manifest, ReadsAGoodOne) {
  auto manifest = ParseManifest(kGood, "Pie.toml");
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_EQ(manifest->id(), "text-completion@0.1.0");
  EXPECT_EQ(manifest->description, "Answers");
  ASSERT_EQ(manifest->parameters.size(), 4u);
  for (const Parameter& parameter : manifest->parameters) {
    EXPECT_EQ(parameter.optional, parameter.name != "prompt");
  }
}

TEST(Manifest, NamesAndVersionsThatAreGood) {
  for (const char* name : {"a", "a1", "my-app", "a-1-b"}) {
    EXPECT_TRUE(
        ParseManifest(fmt::format("[package]\nname = \"{}\"\nversion = \"1.0.0\"", name), ""));
  }
  for (const char* version : {"0.0.1", "10.20.30", "1.0.0-rc.1", "1.0.0+build5"}) {
    EXPECT_TRUE(
        ParseManifest(fmt::format("[package]\nname = \"a\"\nversion = \"{}\"", version), ""));
  }
}

TEST(Manifest, FaultsNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[package\nname = 1", "Pie.toml:1: "},
      {"[package]\nname = \"a\"\nname = \"b\"", "Pie.toml:3: "},
      {"", "Pie.toml: there is no [package] table"},
      {"package = 3", "Pie.toml: there is no [package] table"},
      {"\n[package]\nversion = \"1.0.0\"", "Pie.toml:2: [package] has no 'name'"},
      {"[package]\nname = \"a\"", "Pie.toml:1: [package] has no 'version'"},
      {"[package]\nname = 7\nversion = \"1.0.0\"", "Pie.toml:2: 'name' must be a text"},
      {"[package]\nname = \"a\"\nversion = 1.0", "Pie.toml:3: 'version' must be a text"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\ndescription = 1",
       "Pie.toml:4: 'description' must be a text"},
      {"[package]\nname = \"My App\"\nversion = \"1.0.0\"", "Pie.toml:2: the name 'My App' must"},
      {"[package]\nname = \"a--b\"\nversion = \"1.0.0\"", "Pie.toml:2: the name 'a--b' must"},
      {"[package]\nname = \"-a\"\nversion = \"1.0.0\"", "Pie.toml:2: "},
      {"[package]\nname = \"\"\nversion = \"1.0.0\"", "Pie.toml:2: "},
      {"[package]\nname = \"core\"\nversion = \"1.0.0\"",
       "Pie.toml:2: 'core' is a name of Pie's own"},
      {"[package]\nname = \"a\"\nversion = \"1.0\"", "Pie.toml:3: the version '1.0' must be"},
      {"[package]\nname = \"a\"\nversion = \"01.0.0\"", "Pie.toml:3: the version"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n\n[parameters]\nn = \"int\"",
       "Pie.toml:6: parameter 'n' must be a table"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\nn = {}",
       "Pie.toml:5: parameter 'n' needs a type"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\nn = { type = \"integer\" }",
       "Pie.toml:5: parameter 'n' needs a type: string, int, float or bool"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n"
       "n = { type = \"int\", optional = \"yes\" }",
       "Pie.toml:5: parameter 'n': 'optional' must be true or false"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n"
       "n = { type = \"int\", description = 1 }",
       "Pie.toml:5: 'description' must be a text"},
      {"parameters = 1\n[package]\nname = \"a\"\nversion = \"1.0.0\"",
       "Pie.toml:1: 'parameters' must be a table"},
  };
  for (const auto& [text, wanted] : cases) {
    const std::string error = ErrorOf(text);
    EXPECT_TRUE(error.starts_with(wanted)) << text << "\ngave: " << error;
  }
}

TEST(Manifest, LongTextsAreRefusedNotCrashedOn) {
  const std::string name(1 << 20, 'a'), version(1 << 20, '1');
  EXPECT_NE(ErrorOf("[package]\nname = \"" + name + "\"\nversion = \"1.0.0\""), "");
  EXPECT_NE(ErrorOf("[package]\nname = \"a\"\nversion = \"" + version + "\""), "");
  EXPECT_NE(ErrorOf(std::string(100'000, '[')), "");
}

TEST(Manifest, FileThatIsNotThere) {
  EXPECT_EQ(ReadManifest("/nowhere/Pie.toml").error().code, Code::kNotFound);
  EXPECT_NE(ReadManifest("/").error().text.find("give the Pie.toml itself"), std::string::npos);
}

class Check : public testing::Test {
 protected:
  static std::string ErrorFor(const char* json) {
    Status status = ParseManifest(kGood, "")->Check(nlohmann::json::parse(json));
    return status ? "" : status.error().text;
  }
};

TEST_F(Check, AcceptsWhatFits) {
  EXPECT_EQ(ErrorFor(R"({"prompt": "hi"})"), "");
  EXPECT_EQ(ErrorFor(R"({"prompt": "hi", "n": 3, "heat": 0.5, "greedy": true})"), "");
  EXPECT_EQ(ErrorFor(R"({"prompt": "hi", "heat": 1})"), "") << "an int is a float as well";
  EXPECT_EQ(ErrorFor(R"({"prompt": "hi", "n": null})"), "") << "null is nothing";
  EXPECT_EQ(ErrorFor(R"({"prompt": "hi", "unknown": [1]})"), "");
}

TEST_F(Check, NamesWhatIsMissing) {
  EXPECT_EQ(ErrorFor("{}"), "parameter 'prompt' (string) is missing: What to ask");
  EXPECT_EQ(ErrorFor(R"({"prompt": null})"), "parameter 'prompt' (string) is missing: What to ask");
  EXPECT_EQ(ErrorFor("[1]"), "parameter 'prompt' (string) is missing: What to ask");
  EXPECT_EQ(ErrorFor("null"), "parameter 'prompt' (string) is missing: What to ask");
}

TEST_F(Check, NamesWhatIsOfTheWrongType) {
  EXPECT_EQ(ErrorFor(R"({"prompt": 3})"), "parameter 'prompt' must be of type string, not 3");
  EXPECT_EQ(ErrorFor(R"({"prompt": "", "n": 1.5})"), "parameter 'n' must be of type int, not 1.5");
  EXPECT_EQ(ErrorFor(R"({"prompt": "", "heat": "x"})"),
            "parameter 'heat' must be of type float, not \"x\"");
  EXPECT_EQ(ErrorFor(R"({"prompt": "", "greedy": 1})"),
            "parameter 'greedy' must be of type bool, not 1");
}

TEST_F(Check, QuotesLongValuesInPart) {
  nlohmann::json input = {{"prompt", ""}, {"n", ""}};
  for (int i = 0; i < 100; ++i) input["n"] = input["n"].get<std::string>() + "é";
  const std::string text = ParseManifest(kGood, "")->Check(input).error().text;
  EXPECT_LT(text.size(), 140u);
  EXPECT_NO_THROW(nlohmann::json(text).dump()) << "valid UTF-8";
}

TEST_F(Check, SurvivesWhatIsNotUtf8) {
  nlohmann::json input = {{"prompt", ""}, {"n", "\xff"}};
  EXPECT_FALSE(ParseManifest(kGood, "")->Check(input));
}

}  // namespace
}  // namespace pie::host
