#include "cli/testing/test_file.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string_view>
#include <utility>

#include "cli/testing/script_file.h"
#include "cli/testing/toml_values.h"

namespace pie::cli {
namespace {

constexpr uint64_t kMostSeconds = 86'400;

// One of the keys `name`, `name`_contains, `name`_matches and `name`_json, or nothing. A value that
// is no text is JSON under `name` too.
Result<std::optional<Expectation>> ReadExpectation(const toml::table& table,
                                                   const std::string& name,
                                                   const std::string& path) {
  using How = Expectation::How;
  static constexpr std::array<std::pair<const char*, How>, 4> kForms = {
      {{"", How::kIs},
       {"_contains", How::kContains},
       {"_matches", How::kMatches},
       {"_json", How::kIsJson}}};
  std::optional<Expectation> found;
  for (const auto& [suffix, how] : kForms) {
    const toml::node* const node = table.get(name + suffix);
    if (node == nullptr) continue;
    if (found) {
      return Fail(Code::kInvalid, "{}: give '{}' in one form only", PlaceOf(*node, path), name);
    }
    found = Expectation{.how = how};
    if (how == How::kIsJson || (how == How::kIs && !node->is_string())) {
      found->how = How::kIsJson;
      found->json = ToJson(*node);
      continue;
    }
    PIE_RETURN_IF_ERROR(ReadText(table, name + suffix, path, &found->text));
    if (how != How::kMatches) continue;
    try {
      std::regex{found->text};
    } catch (const std::regex_error& error) {
      return Fail(Code::kInvalid, "{}: '{}' is not a regular expression: {}", PlaceOf(*node, path),
                  name + suffix, error.what());
    }
  }
  return found;
}

Result<std::string> ReadBytes(const std::string& name, const std::string& path) {
  const auto file = std::filesystem::path(path).parent_path() / name;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file)) {
    return Fail(Code::kNotFound, "{}: cannot read the file {}", path, file.string());
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Result<TestStep> ReadStep(const toml::table& table, const std::string& path) {
  using Kind = TestStep::Kind;
  PIE_RETURN_IF_ERROR(CheckKeys(table,
                                {"send", "send_file", "expect", "expect_contains", "expect_matches",
                                 "expect_json", "expect_stream", "expect_file"},
                                path));
  TestStep step{.line = static_cast<int>(table.source().begin.line)};
  if (table.size() != 1) {
    return Fail(Code::kInvalid, "{}: a step of 'session' has one key, such as send or expect",
                PlaceOf(table, path));
  }
  if (auto expected = PIE_TRY(ReadExpectation(table, "expect", path))) {
    step.kind = Kind::kExpect;
    step.expected = *std::move(expected);
    return step;
  }
  const std::string key(table.begin()->first.str());
  PIE_RETURN_IF_ERROR(ReadText(table, key, path, &step.text));
  step.kind = key == "send"            ? Kind::kSend
              : key == "send_file"     ? Kind::kSendFile
              : key == "expect_stream" ? Kind::kExpectStream
                                       : Kind::kExpectFile;
  if (step.kind == Kind::kSendFile || step.kind == Kind::kExpectFile) {
    step.text = PIE_TRY(ReadBytes(step.text, path));
  }
  return step;
}

Result<std::map<std::string, std::string>> ReadTextsByName(const toml::table& table,
                                                           std::string_view key,
                                                           const std::string& path) {
  std::map<std::string, std::string> texts;
  const toml::node* const node = table.get(key);
  if (node == nullptr) return texts;
  const toml::table* const of = node->as_table();
  if (of == nullptr || (!of->empty() && !of->is_homogeneous<std::string>())) {
    return Fail(Code::kInvalid, "{}: '{}' must be a table of texts", PlaceOf(*node, path), key);
  }
  for (const auto& [name, text] : *of) texts[std::string(name.str())] = text.as_string()->get();
  return texts;
}

Result<std::optional<TestRequest>> ReadRequest(const toml::table& test, const std::string& path) {
  const toml::node* const node = test.get("request");
  if (node == nullptr) return std::nullopt;
  const toml::table* const table = node->as_table();
  if (table == nullptr) {
    return Fail(Code::kInvalid, "{}: 'request' must be a table", PlaceOf(*node, path));
  }
  PIE_RETURN_IF_ERROR(CheckKeys(*table, {"method", "path", "headers", "body", "json"}, path));
  TestRequest request;
  PIE_RETURN_IF_ERROR(ReadText(*table, "body", path, &request.body));
  if (const toml::node* json = table->get("json")) {
    request.body = ToJson(*json).dump();
    request.headers = "content-type:application/json\n";
  }
  if (!request.body.empty()) request.method = "POST";
  PIE_RETURN_IF_ERROR(ReadText(*table, "method", path, &request.method));
  PIE_RETURN_IF_ERROR(ReadText(*table, "path", path, &request.path));
  for (const auto& [name, value] : PIE_TRY(ReadTextsByName(*table, "headers", path))) {
    request.headers += fmt::format("{}:{}\n", name, value);
  }
  return request;
}

Status CheckFiles(const std::map<std::string, std::string>& files, const std::string& where) {
  for (const auto& [name, text] : files) {
    const std::filesystem::path file(name);
    bool inside = !name.empty() && file.is_relative();
    for (const auto& part : file) inside = inside && part != "..";
    if (!inside) {
      return Fail(Code::kInvalid, "{}: '{}' must be a path below /data, such as notes/a.txt", where,
                  name);
    }
  }
  return {};
}

Result<TestCase> ReadTest(const toml::table& table, const std::string& path) {
  PIE_RETURN_IF_ERROR(CheckKeys(table,
                                {"name",
                                 "input",
                                 "answer",
                                 "session",
                                 "messages",
                                 "returns",
                                 "returns_json",
                                 "returns_contains",
                                 "returns_matches",
                                 "error",
                                 "error_matches",
                                 "output",
                                 "output_contains",
                                 "output_matches",
                                 "request",
                                 "status",
                                 "response",
                                 "response_json",
                                 "response_contains",
                                 "response_matches",
                                 "files",
                                 "vocabulary",
                                 "seed",
                                 "timeout_secs",
                                 "continues"},
                                path));
  TestCase test{.line = static_cast<int>(table.source().begin.line)};
  PIE_RETURN_IF_ERROR(ReadText(table, "name", path, &test.name));
  if (test.name.empty()) test.name = fmt::format("line {}", test.line);
  if (const toml::node* input = table.get("input")) test.input = ToJson(*input);
  test.answers = PIE_TRY(ReadAnswers(table, path));
  for (const toml::table* step : PIE_TRY(ReadTables(table, "session", path))) {
    test.session.push_back(PIE_TRY(ReadStep(*step, path)));
  }
  std::vector<std::string> messages;
  PIE_RETURN_IF_ERROR(ReadTexts(table, "messages", path, &messages));
  for (std::string& message : messages) {
    test.session.push_back({.kind = TestStep::Kind::kExpect,
                            .text = {},
                            .expected = {.text = std::move(message)},
                            .line = static_cast<int>(table.get("messages")->source().begin.line)});
  }
  test.counts_messages = table.contains("session") || table.contains("messages");
  test.returns = PIE_TRY(ReadExpectation(table, "returns", path));
  test.error = PIE_TRY(ReadExpectation(table, "error", path));
  // A whole error names places in the program, so a part of it is enough.
  if (test.error && test.error->how == Expectation::How::kIs) {
    test.error->how = Expectation::How::kContains;
  }
  test.output = PIE_TRY(ReadExpectation(table, "output", path));
  test.request = PIE_TRY(ReadRequest(table, path));
  if (table.contains("status")) {
    PIE_RETURN_IF_ERROR(ReadNumber(table, "status", path, 100, 599, &test.status.emplace()));
  }
  test.response = PIE_TRY(ReadExpectation(table, "response", path));
  if (!test.request && (test.status || test.response)) {
    return Fail(Code::kInvalid, "{}: 'status' and 'response' belong to a test with a 'request'",
                PlaceOf(table, path));
  }
  if (test.request && (test.counts_messages || test.returns)) {
    return Fail(Code::kInvalid,
                "{}: an inferlet that answers a request has no session and no return value; expect "
                "a 'response'",
                PlaceOf(table, path));
  }
  if (test.error && test.returns) {
    return Fail(Code::kInvalid,
                "{}: an inferlet that fails returns nothing: give 'error' or "
                "'returns'",
                PlaceOf(table, path));
  }
  test.files = PIE_TRY(ReadTextsByName(table, "files", path));
  PIE_RETURN_IF_ERROR(CheckFiles(test.files, PlaceOf(table, path)));
  PIE_RETURN_IF_ERROR(ReadText(table, "vocabulary", path, &test.vocabulary));
  PIE_RETURN_IF_ERROR(ReadNumber(table, "seed", path, 0, INT64_MAX, &test.seed));
  PIE_RETURN_IF_ERROR(ReadNumber(table, "timeout_secs", path, 1, kMostSeconds, &test.timeout_secs));
  PIE_RETURN_IF_ERROR(ReadFlag(table, "continues", path, &test.continues));
  return test;
}

}  // namespace

Result<std::vector<TestCase>> ReadTests(const std::string& path) {
  const toml::table root = PIE_TRY(ParseTomlFile(path));
  PIE_RETURN_IF_ERROR(CheckKeys(root, {"test"}, path));
  std::vector<TestCase> tests;
  for (const toml::table* table : PIE_TRY(ReadTables(root, "test", path))) {
    tests.push_back(PIE_TRY(ReadTest(*table, path)));
  }
  if (tests.empty())
    return Fail(Code::kInvalid, "{} has no tests; each begins with [[test]]", path);
  if (tests[0].continues) {
    return Fail(Code::kInvalid, "{}:{}: the first test of a file continues no other", path,
                tests[0].line);
  }
  return tests;
}

}  // namespace pie::cli
