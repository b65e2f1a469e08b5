#include "host/manifest.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

#include "base/utf8.h"

namespace pie::host {
namespace {

constexpr std::string_view kReserved[] = {"core", "instruct", "mcp", "zo",
                                          "plus", "inferlet", "wasi"};

// An input may have any number of unknown keys, and a manifest any number of unknown types.
constexpr size_t kMaxWarnings = 16;

// The limit on the dots in one line of a manifest. A key with dots makes a table for each of its
// parts, and tables within tables are destroyed by recursion, so a long key would overflow the
// stack.
constexpr int64_t kMaxDotsInLine = 128;

// Returns the number of the first line that has too many dots; 0: there is none.
size_t LineOfManyDots(std::string_view text) {
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (std::ranges::count(text.substr(0, end), '.') > kMaxDotsInLine) return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}

// Returns the end of the text in quotes that begins at `begin`.
size_t EndOfText(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const std::string thrice(3, quote);
  const bool has_lines = text.substr(begin).starts_with(thrice);
  size_t at = begin + (has_lines ? 3 : 1);
  while (at < text.size()) {
    if (text[at] == '\\' && quote == '"') {
      at += 2;
    } else if (has_lines && text.substr(at).starts_with(thrice)) {
      at += 3;
      // The text may end with one or two quotes of its own.
      for (int i = 0; i < 2 && at < text.size() && text[at] == quote; ++i) ++at;
      return at;
    } else if (!has_lines && (text[at] == quote || text[at] == '\n')) {
      return text[at] == quote ? at + 1 : at;
    } else {
      ++at;
    }
  }
  return text.size();
}

// The limit on arrays and inline tables within one another. The parser and the destructors recurse.
constexpr size_t kMaxNesting = 16;

// Returns the number of the first line with a bracket that is nested too deeply; 0: there is none.
// A bracket in a text or a comment is none. Texts and comments are found as a parser would find
// them in a valid file; of one that is not valid, the parser sees at most this much nesting.
size_t LineOfDeepNesting(std::string_view text) {
  size_t depth = 0, line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) return line;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '"' || c == '\'') {
      const size_t begin = i;
      i = EndOfText(text, i);
      line += static_cast<size_t>(std::ranges::count(text.substr(begin, i - begin), '\n'));
      --i;
    }
  }
  return 0;
}

// Returns the beginning of a key, as valid text for an error message.
std::string ShortName(std::string_view key) {
  return ToValidUtf8(key.substr(0, 80));
}

// Returns the type that a manifest calls `name`.
std::optional<Parameter::Type> TypeOf(std::string_view name) {
  if (name == "string" || name == "str" || name == "text") return Parameter::Type::kString;
  if (name == "int" || name == "integer") return Parameter::Type::kInt;
  if (name == "float" || name == "number" || name == "double") return Parameter::Type::kFloat;
  if (name == "bool" || name == "boolean") return Parameter::Type::kBool;
  if (name == "any") return Parameter::Type::kAny;
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view path) : path_(path) {}

  template <class... Args>
  std::unexpected<Error> FailAt(const toml::node& node, fmt::format_string<Args...> format,
                                Args&&... args) const {
    return Fail(Code::kInvalid, "{}:{}: {}", path_, node.source().begin.line,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<std::string> Text(const toml::table& table, std::string_view key, bool required) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      if (required) return FailAt(table, "[package] has no '{}'", key);
      return std::string();
    }
    if (!node->is_string()) return FailAt(*node, "'{}' must be a text in quotes", key);
    return node->as_string()->get();
  }

  Result<Parameter> ReadParameter(std::string_view name, const toml::node& node) {
    Parameter parameter{.name = std::string(name), .type = Parameter::Type::kAny};
    const toml::table* table = node.as_table();
    // The short form is the type alone: n = "int".
    const toml::node* type = table != nullptr ? table->get("type") : &node;
    if (type != nullptr) parameter.type = ReadType(name, *type);
    if (table == nullptr) return parameter;
    // Other tools write a default, which the program itself takes.
    parameter.optional = table->contains("default");
    // Two words for the same; `optional` is ours, so it is read last.
    for (const std::string_view key : {"required", "optional"}) {
      const toml::node* flag = table->get(key);
      if (flag == nullptr) continue;
      if (!flag->is_boolean()) {
        return FailAt(*flag, "parameter '{}': '{}' must be true or false", name, key);
      }
      parameter.optional = flag->as_boolean()->get() == (key == "optional");
    }
    parameter.description = PIE_TRY(Text(*table, "description", false));
    return parameter;
  }

  std::vector<std::string> TakeNotices() { return std::move(notices_); }

 private:
  // Other tools know other types. The program decides what it takes, so these are no errors.
  Parameter::Type ReadType(std::string_view name, const toml::node& node) {
    const std::string text = node.is_string() ? node.as_string()->get() : "";
    if (const auto type = TypeOf(text)) return *type;
    if (notices_.size() < kMaxWarnings) {
      notices_.push_back(fmt::format(
          "{}:{}: parameter '{}' has an unknown type{}; known are string, int, float and bool",
          path_, node.source().begin.line, ShortName(name),
          text.empty() ? "" : ": " + ShortName(text)));
    }
    return Parameter::Type::kAny;
  }

  std::string path_;
  std::vector<std::string> notices_;
};

bool Fits(Parameter::Type type, const nlohmann::json& value) {
  switch (type) {
    case Parameter::Type::kString:
      return value.is_string();
    case Parameter::Type::kInt:
      return value.is_number_integer();
    case Parameter::Type::kFloat:
      return value.is_number();
    case Parameter::Type::kBool:
      return value.is_boolean();
    case Parameter::Type::kAny:
      break;
  }
  return true;
}

// Returns the beginning of a value, as valid text for an error message.
std::string Excerpt(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= 80 ? text : ToValidUtf8(std::string_view(text).substr(0, 80)) + "…";
}

}  // namespace

std::string_view NameOf(Parameter::Type type) {
  switch (type) {
    case Parameter::Type::kString:
      return "string";
    case Parameter::Type::kInt:
      return "int";
    case Parameter::Type::kFloat:
      return "float";
    case Parameter::Type::kBool:
      return "bool";
    case Parameter::Type::kAny:
      break;
  }
  return "any";
}

std::vector<std::string> Manifest::Warnings(const nlohmann::json& input) const {
  std::vector<std::string> warnings;
  const auto value_of = [&](const std::string& key) {
    auto found = input.is_object() ? input.find(key) : input.end();
    return found == input.end() || found->is_null() ? nullptr : &*found;
  };
  for (const Parameter& parameter : parameters) {
    const nlohmann::json* value = value_of(parameter.name);
    if (value == nullptr && !parameter.optional) {
      warnings.push_back(
          fmt::format("parameter '{}' ({}) is missing{}{}", parameter.name, NameOf(parameter.type),
                      parameter.description.empty() ? "" : ": ", parameter.description));
    } else if (value != nullptr && !Fits(parameter.type, *value)) {
      warnings.push_back(fmt::format("parameter '{}' is declared as {}, but is {}", parameter.name,
                                     NameOf(parameter.type), Excerpt(*value)));
    }
  }
  if (parameters.empty() || !input.is_object()) return warnings;
  for (const auto& [key, value] : input.items()) {
    const bool known = std::ranges::find(parameters, key, &Parameter::name) != parameters.end();
    if (!known && warnings.size() < kMaxWarnings) {
      warnings.push_back(fmt::format("the manifest has no parameter '{}'", ShortName(key)));
    }
  }
  return warnings;
}

Result<Manifest> ParseManifest(std::string_view text, std::string_view path) {
  if (const size_t line = LineOfManyDots(text)) {
    return Fail(Code::kInvalid,
                "{}:{}: the line has more than {} dots; use fewer, or break the line", path, line,
                kMaxDotsInLine);
  }
  if (const size_t line = LineOfDeepNesting(text)) {
    return Fail(Code::kInvalid, "{}:{}: arrays and tables are nested more than {} deep", path, line,
                kMaxNesting);
  }
  toml::table root;
  try {
    root = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  Reader reader(path);
  const toml::table* package = root["package"].as_table();
  if (package == nullptr) {
    return Fail(Code::kInvalid, "{}: there is no [package] table with a name and a version", path);
  }
  Manifest manifest;
  manifest.name = PIE_TRY(reader.Text(*package, "name", true));
  manifest.version = PIE_TRY(reader.Text(*package, "version", true));
  manifest.description = PIE_TRY(reader.Text(*package, "description", false));
  // The rule of WIT for a package, because the component exports pie:NAME/run.
  static const std::regex kName("[a-z][a-z0-9]*(-[a-z0-9]+)*");
  if (manifest.name.size() > 128 || !std::regex_match(manifest.name, kName)) {
    return reader.FailAt(*package->get("name"),
                         "the name '{}' must be lowercase words joined by hyphens, such as "
                         "my-app-2; it begins with a letter and has at most 128 characters",
                         ShortName(manifest.name));
  }
  if (std::ranges::find(kReserved, manifest.name) != std::end(kReserved)) {
    return reader.FailAt(*package->get("name"), "the name '{}' is reserved; choose another",
                         manifest.name);
  }
  static const std::regex kVersion(
      R"((0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})([-+][0-9A-Za-z.+-]{1,64})?)");
  if (!std::regex_match(manifest.version, kVersion)) {
    return reader.FailAt(*package->get("version"),
                         "the version '{}' must be three numbers, such as 1.2.3", manifest.version);
  }
  if (const toml::node* node = root.get("parameters")) {
    const toml::table* table = node->as_table();
    if (table == nullptr) return reader.FailAt(*node, "'parameters' must be a table");
    for (const auto& [name, value] : *table) {
      manifest.parameters.push_back(PIE_TRY(reader.ReadParameter(name.str(), value)));
    }
  }
  manifest.notices = reader.TakeNotices();
  return manifest;
}

Result<Manifest> ReadManifest(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Fail(Code::kNotFound, "cannot read the manifest {}", path);
  std::stringstream text;
  text << file.rdbuf();
  if (file.bad() || std::filesystem::is_directory(path)) {
    return Fail(Code::kInvalid, "cannot read the manifest {}: give the Pie.toml itself", path);
  }
  return ParseManifest(text.str(), path);
}

}  // namespace pie::host
