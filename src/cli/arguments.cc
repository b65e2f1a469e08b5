#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <regex>
#include <string_view>

#include "base/utf8.h"

namespace pie::cli {
namespace {

// The limit on nesting of the input. The JSON library recurses, so it needs one.
constexpr size_t kMaxDepth = 512;

nlohmann::json ByShape(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  // Longer texts are not numbers, and std::regex would need much stack for them.
  if (text.size() >= 64) return text;
  static const std::regex kInt(R"([+-]?\d+)");
  static const std::regex kFloat(R"([+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?)");
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  if (std::regex_match(text, kInt)) {
    if (int64_t value = 0; std::from_chars(begin, end, value).ec == std::errc()) return value;
    if (uint64_t value = 0; std::from_chars(begin, end, value).ec == std::errc()) return value;
  }
  if (std::regex_match(text, kFloat)) {
    if (double value = 0; std::from_chars(begin, end, value).ec == std::errc()) return value;
  }
  return text;
}

// Negative numbers are not flags, and no flag has a space in its name: `--prompt '--loud or not?'`
// has a value.
bool IsFlag(const std::string& text) {
  if (text.size() <= 2 || !text.starts_with("--")) return false;
  return std::string_view(text).substr(0, text.find('=')).find_first_of(" \t\r\n") ==
         std::string_view::npos;
}

std::string SnakeCase(std::string text) {
  std::ranges::replace(text, '-', '_');
  return text;
}

// Reads a whole stream, but at most one byte more than `max_bytes`.
std::string ReadUpTo(std::istream& stream, size_t max_bytes) {
  std::string text;
  std::array<char, 65'536> buffer;
  while (text.size() <= max_bytes && stream.good()) {
    const size_t wanted = std::min(buffer.size(), max_bytes + 1 - text.size());
    stream.read(buffer.data(), static_cast<std::streamsize>(wanted));
    text.append(buffer.data(), static_cast<size_t>(stream.gcount()));
  }
  return text;
}

// Returns the nesting depth of a JSON text; exact for every valid text.
size_t Depth(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<nlohmann::json> ParseArguments(const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& texts,
                                      const std::vector<std::string>& names) {
  for (const std::string& argument : arguments) {
    if (std::string text = ToValidUtf8(argument); text != argument) {
      return Fail(Code::kInvalid, "the argument '{}' is not UTF-8 text", text);
    }
  }
  nlohmann::json input = nlohmann::json::object();
  nlohmann::json positional = nlohmann::json::array();
  // A name of the manifest that differs in hyphens and underscores alone, or else the snake case.
  const auto key_of = [&](const std::string& flag) {
    const std::string key = SnakeCase(flag);
    if (std::ranges::find(names, key) != names.end()) return key;
    const auto same = [&](const std::string& name) { return SnakeCase(name) == key; };
    const auto found = std::ranges::find_if(names, same);
    return found == names.end() ? key : *found;
  };
  const auto set = [&](const std::string& name, const std::string& value) {
    const std::string key = key_of(name);
    input[key] =
        std::ranges::find(texts, key) != texts.end() ? nlohmann::json(value) : ByShape(value);
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!IsFlag(arguments[i])) {
      positional.push_back(ByShape(arguments[i]));
      continue;
    }
    std::string key = arguments[i].substr(2);
    if (size_t equals = key.find('='); equals != std::string::npos) {
      set(key.substr(0, equals), key.substr(equals + 1));
    } else if (i + 1 < arguments.size() && !IsFlag(arguments[i + 1])) {
      set(key, arguments[++i]);
    } else {
      input[key_of(key)] = true;
    }
  }
  if (!positional.empty()) input["_positional"] = std::move(positional);
  return input;
}

Result<nlohmann::json> ReadInput(const std::string& input, size_t max_bytes) {
  std::string text = input;
  if (input == "-") {
    text = ReadUpTo(std::cin, max_bytes);
  } else if (input.starts_with('@')) {
    std::ifstream file(input.substr(1), std::ios::binary);
    if (!file) return Fail(Code::kNotFound, "cannot read the input file {}", input.substr(1));
    text = ReadUpTo(file, max_bytes);
    if (file.bad()) return Fail(Code::kInvalid, "cannot read the input file {}", input.substr(1));
  }
  if (text.size() > max_bytes) {
    return Fail(Code::kExhausted, "the input is too large: at most {} MiB are allowed",
                max_bytes >> 20);
  }
  if (Depth(text) > kMaxDepth) {
    return Fail(Code::kExhausted, "--input is nested deeper than {} levels", kMaxDepth);
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    // Removes the library's prefix "[json.exception.parse_error.101] ".
    std::string_view why = error.what();
    if (size_t bracket = why.find("] "); bracket != why.npos) why.remove_prefix(bracket + 2);
    return Fail(Code::kInvalid, "--input is not valid JSON: {}", why);
  }
}

}  // namespace pie::cli
