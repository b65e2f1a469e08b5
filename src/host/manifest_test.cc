#include "host/manifest.h"

#include <fmt/ranges.h>
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

TEST(Manifest, AKeyOfManyPartsIsRefused) {
  std::string key = "a";
  for (int i = 0; i < 130'000; ++i) key += ".a";
  // Each part is a table. To destroy them would take more than the stack of a thread.
  EXPECT_EQ(ErrorOf(std::string(kGood) + key + " = 1\n"),
            "Pie.toml:15: the line has more than 128 dots; use fewer, or break the line");
  EXPECT_EQ(ErrorOf("[" + key + "]\n" + std::string(kGood)),
            "Pie.toml:1: the line has more than 128 dots; use fewer, or break the line");
}

TEST(Manifest, DeepNestingIsRefused) {
  // Each line has as many dots as it may, and the lines are nested: tens of thousands of tables.
  std::string key = "a";
  for (int i = 0; i < 127; ++i) key += ".a";
  std::string deep = std::string(kGood) + "[extra]\nx = [\n";
  for (int i = 0; i < 100; ++i) deep += "{" + key + " = [\n";
  EXPECT_EQ(ErrorOf(deep), "Pie.toml:24: arrays and tables are nested more than 16 deep");
  std::string texts = std::string(kGood) + "# " + std::string(100, '[') + "\n[extra]\n";
  for (const char* quotes : {"\"", "'", "\"\"\"", "'''"}) {
    texts += fmt::format("x{} = {}{}{}\n", texts.size(), quotes, std::string(100, '{'), quotes);
  }
  texts += "last = \"\"\"a \\\"\"\" [\n\"\"\"\"\n";
  const auto manifest = ParseManifest(texts, "Pie.toml");
  EXPECT_TRUE(manifest) << manifest.error().text;
}

TEST(Manifest, AParameterWithADefaultMayBeMissing) {
  auto manifest = ParseManifest(
      "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n"
      "n = { type = \"int\", default = 4 }\nm = { default = 4, optional = false }\n",
      "Pie.toml");
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_TRUE(manifest->notices.empty());
  const std::vector<std::string> warnings = manifest->Warnings(nlohmann::json::object());
  ASSERT_EQ(warnings.size(), 1u) << "what the manifest says of 'optional' holds";
  EXPECT_EQ(warnings[0], "parameter 'm' (any) is missing");
}

TEST(Manifest, RequiredIsTheOppositeOfOptional) {
  auto manifest = ParseManifest(
      "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n"
      "n = { required = false }\nm = { default = 4, required = true }\n"
      "o = { optional = true, required = true }\n",
      "Pie.toml");
  ASSERT_TRUE(manifest) << manifest.error().text;
  for (const Parameter& parameter : manifest->parameters) {
    EXPECT_EQ(parameter.optional, parameter.name != "m") << parameter.name;
  }
}

TEST(Manifest, NamesAndVersionsThatAreGood) {
  for (const char* name : {"a", "a1", "my-app", "a-1-b", "my-app-2"}) {
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
      {"[package]\nname = \"2fast\"\nversion = \"1.0.0\"", "Pie.toml:2: the name '2fast' must"},
      {"[package]\nname = \"\"\nversion = \"1.0.0\"", "Pie.toml:2: "},
      {"[package]\nname = \"core\"\nversion = \"1.0.0\"",
       "Pie.toml:2: the name 'core' is reserved"},
      {"[package]\nname = \"a\"\nversion = \"1.0\"", "Pie.toml:3: the version '1.0' must be"},
      {"[package]\nname = \"a\"\nversion = \"01.0.0\"", "Pie.toml:3: the version"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n"
       "n = { type = \"int\", optional = \"yes\" }",
       "Pie.toml:5: parameter 'n': 'optional' must be true or false"},
      {"[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n"
       "n = { required = 1 }",
       "Pie.toml:5: parameter 'n': 'required' must be true or false"},
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

// Parses a manifest with one parameter `n`.
Manifest WithParameter(std::string_view specification) {
  auto manifest = ParseManifest(
      fmt::format("[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\nn = {}",
                  specification),
      "Pie.toml");
  EXPECT_TRUE(manifest) << manifest.error().text;
  return manifest ? *manifest : Manifest{};
}

TEST(Manifest, TypesHaveSeveralNamesAndAShortForm) {
  const std::pair<const char*, Parameter::Type> cases[] = {
      {R"({ type = "string" })", Parameter::Type::kString},
      {R"({ type = "str" })", Parameter::Type::kString},
      {R"({ type = "integer" })", Parameter::Type::kInt},
      {R"({ type = "number" })", Parameter::Type::kFloat},
      {R"({ type = "boolean" })", Parameter::Type::kBool},
      {R"({ type = "any" })", Parameter::Type::kAny},
      {R"({ description = "Anything" })", Parameter::Type::kAny},
      {"{}", Parameter::Type::kAny},
      {R"("int")", Parameter::Type::kInt},
      {R"("boolean")", Parameter::Type::kBool},
  };
  for (const auto& [specification, type] : cases) {
    const Manifest manifest = WithParameter(specification);
    ASSERT_EQ(manifest.parameters.size(), 1u) << specification;
    EXPECT_EQ(manifest.parameters[0].type, type) << specification;
    EXPECT_FALSE(manifest.parameters[0].optional) << specification;
    EXPECT_TRUE(manifest.notices.empty()) << specification;
  }
}

TEST(Manifest, UnknownTypesAreNotices) {
  for (const char* specification :
       {R"({ type = "json" })", R"("What to ask")", "{ type = 3 }", "5", "[1]"}) {
    const Manifest manifest = WithParameter(specification);
    ASSERT_EQ(manifest.parameters.size(), 1u) << specification;
    EXPECT_EQ(manifest.parameters[0].type, Parameter::Type::kAny) << specification;
    ASSERT_EQ(manifest.notices.size(), 1u) << specification;
    EXPECT_TRUE(manifest.notices[0].starts_with("Pie.toml:5: parameter 'n' has an unknown type"))
        << manifest.notices[0];
    for (const char* value : {"3", R"("x")", "[1, 2]", R"({"a": true})"}) {
      EXPECT_TRUE(manifest.Warnings({{"n", nlohmann::json::parse(value)}}).empty()) << value;
    }
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(WithParameter(R"("json")").Warnings({{"m", 1}}), "; ")),
            "parameter 'n' (any) is missing; the manifest has no parameter 'm'");
}

TEST(Manifest, NoticesAreFewAndShort) {
  std::string text = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[parameters]\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("n{} = \"{}\"\n", i, std::string(1000, 'x'));
  const auto manifest = ParseManifest(text, "Pie.toml");
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_EQ(manifest->parameters.size(), 100u);
  EXPECT_LT(manifest->notices.size(), 20u);
  EXPECT_LT(manifest->notices[0].size(), 240u);
}

TEST(Manifest, DependenciesMayBeTables) {
  EXPECT_TRUE(ParseManifest(
      "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nb = { path = \"../b\" }",
      "Pie.toml"));
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

class Warnings : public testing::Test {
 protected:
  static std::string WarningsFor(const char* json) {
    return fmt::format(
        "{}", fmt::join(ParseManifest(kGood, "")->Warnings(nlohmann::json::parse(json)), "; "));
  }
};

TEST_F(Warnings, ThereAreNoneAboutWhatFits) {
  EXPECT_EQ(WarningsFor(R"({"prompt": "hi"})"), "");
  EXPECT_EQ(WarningsFor(R"({"prompt": "hi", "n": 3, "heat": 0.5, "greedy": true})"), "");
  EXPECT_EQ(WarningsFor(R"({"prompt": "hi", "heat": 1})"), "") << "an int is a float as well";
  EXPECT_EQ(WarningsFor(R"({"prompt": "hi", "n": null})"), "") << "null is nothing";
}

TEST_F(Warnings, NameWhatIsMissing) {
  const char* const missing = "parameter 'prompt' (string) is missing: What to ask";
  for (const char* input : {"{}", R"({"prompt": null})", "[1]", "null"}) {
    EXPECT_EQ(WarningsFor(input), missing) << input;
  }
}

TEST_F(Warnings, NameWhatIsOfAnotherType) {
  EXPECT_EQ(WarningsFor(R"({"prompt": 3})"), "parameter 'prompt' is declared as string, but is 3");
  EXPECT_EQ(WarningsFor(R"({"prompt": "", "n": 1.5, "greedy": 1})"),
            "parameter 'greedy' is declared as bool, but is 1; "
            "parameter 'n' is declared as int, but is 1.5");
  EXPECT_EQ(WarningsFor(R"({"prompt": "", "heat": "x"})"),
            "parameter 'heat' is declared as float, but is \"x\"");
}

TEST_F(Warnings, NameWhatIsUnknown) {
  EXPECT_EQ(WarningsFor(R"({"prompt": "hi", "promt": "x"})"),
            "the manifest has no parameter 'promt'");
  EXPECT_TRUE(Manifest{}.Warnings({{"a", 1}}).empty()) << "this manifest describes nothing";
  nlohmann::json many = {{"prompt", ""}};
  for (int i = 0; i < 1000; ++i) many[std::to_string(i) + std::string(1000, 'x')] = i;
  const auto warnings = ParseManifest(kGood, "")->Warnings(many);
  EXPECT_LT(warnings.size(), 20u);
  EXPECT_LT(warnings[0].size(), 140u);
}

TEST_F(Warnings, QuoteLongValuesInPart) {
  nlohmann::json input = {{"prompt", ""}, {"n", ""}};
  for (int i = 0; i < 100; ++i) input["n"] = input["n"].get<std::string>() + "é";
  const auto warnings = ParseManifest(kGood, "")->Warnings(input);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_LT(warnings[0].size(), 140u);
  EXPECT_NO_THROW(nlohmann::json(warnings[0]).dump()) << "valid UTF-8";
}

TEST_F(Warnings, SurviveWhatIsNotUtf8) {
  nlohmann::json input = {{"prompt", ""}, {"n", "\xff"}};
  EXPECT_EQ(ParseManifest(kGood, "")->Warnings(input).size(), 1u);
}

}  // namespace
}  // namespace pie::host
