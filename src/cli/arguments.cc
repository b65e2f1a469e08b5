#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>

namespace pie::cli {
namespace {

nlohmann::json ByShape(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  static const std::regex kInt(R"([+-]?\d{1,18})");
  static const std::regex kFloat(R"([+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?)");
  if (std::regex_match(text, kInt)) return std::stoll(text);
  if (text.size() < 64 && std::regex_match(text, kFloat)) {
    double value = 0;
    const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
    auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
    if (error == std::errc()) return value;
  }
  return text;
}

// A flag, and not a negative number.
bool IsFlag(const std::string& text) {
  return text.size() > 2 && text.starts_with("--");
}

std::string SnakeCase(std::string text) {
  std::ranges::replace(text, '-', '_');
  return text;
}

}  // namespace

nlohmann::json ParseArguments(const std::vector<std::string>& arguments) {
  nlohmann::json input = nlohmann::json::object();
  nlohmann::json positional = nlohmann::json::array();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!IsFlag(arguments[i])) {
      positional.push_back(ByShape(arguments[i]));
      continue;
    }
    std::string key = arguments[i].substr(2);
    if (size_t equals = key.find('='); equals != std::string::npos) {
      input[SnakeCase(key.substr(0, equals))] = ByShape(key.substr(equals + 1));
    } else if (i + 1 < arguments.size() && !IsFlag(arguments[i + 1])) {
      input[SnakeCase(key)] = ByShape(arguments[++i]);
    } else {
      input[SnakeCase(key)] = true;
    }
  }
  if (!positional.empty()) input["_positional"] = std::move(positional);
  return input;
}

Result<nlohmann::json> ReadInput(const std::string& input, size_t max_bytes) {
  std::string text = input;
  if (input == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else if (input.starts_with('@')) {
    std::ifstream file(input.substr(1), std::ios::binary);
    if (!file) return Fail(Code::kNotFound, "cannot read the input file {}", input.substr(1));
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (text.size() > max_bytes) {
    return Fail(Code::kExhausted, "the input has {} bytes; at most {} MiB are allowed", text.size(),
                max_bytes >> 20);
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return Fail(Code::kInvalid, "--input is not valid JSON: {}", error.what());
  }
}

}  // namespace pie::cli
