#include "speech/python_call.h"

#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/limits.h"
#include "speech/json_scan.h"

namespace pie {
namespace {

using Json = nlohmann::ordered_json;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<ToolCall> Calls() {
    std::vector<ToolCall> calls;
    Take('[');
    while (auto call = Call()) {
      calls.push_back(std::move(*call));
      if (!Take(',') && !Take(';')) break;
    }
    return calls;
  }

 private:
  std::optional<ToolCall> Call() {
    const std::string name = Name();
    if (name.empty() || !Take('(')) return std::nullopt;
    Json arguments = Json::object();
    while (!Take(')')) {
      const std::string key = Name();
      if (key.empty() || !Take('=')) return std::nullopt;
      auto value = Value(0);
      if (!value) return std::nullopt;
      arguments[key] = std::move(*value);
      if (!Take(',') && Peek() != ')') return std::nullopt;
    }
    constexpr auto kReplace = Json::error_handler_t::replace;
    return ToolCall{name, arguments.dump(-1, ' ', false, kReplace)};
  }

  void SkipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string Name() {
    SkipSpace();
    const size_t start = at_;
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
    };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  std::optional<Json> Value(uint32_t depth) {
    if (depth == limits::kToolCallDepth) return std::nullopt;
    const char c = Peek();
    if (c == '"' || c == '\'') return Text();
    if (c == '[' || c == '(') return List(depth);
    if (c == '{') return Map(depth);
    const std::string word = Word();
    if (word == "True" || word == "true") return Json(true);
    if (word == "False" || word == "false") return Json(false);
    if (word == "None" || word == "null") return Json(nullptr);
    auto number = Json::parse(word, nullptr, false);
    if (!number.is_number()) return std::nullopt;
    return number;
  }
  std::string Word() {
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '+' || text_[at_] == '-' || text_[at_] == '.')) {
      ++at_;
    }
    return std::string(text_.substr(start, at_ - start));
  }
  std::optional<Json> Text() {
    // The grammar of calls writes JSON's strings, whose escapes are more than those below.
    if (text_[at_] == '"') {
      const size_t length = JsonLength(text_.substr(at_), limits::kToolCallDepth);
      if (length == 0 || length == kUnfinished) return std::nullopt;
      auto text = Json::parse(text_.substr(at_, length), nullptr, false);
      if (text.is_string()) {
        at_ += length;
        return text;
      }
    }
    const char quote = text_[at_++];
    std::string text;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
        if (c == 't') c = '\t';
        if (c == 'r') c = '\r';
      }
      text += c;
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    return Json(text);
  }
  std::optional<Json> List(uint32_t depth) {
    const char close = text_[at_++] == '[' ? ']' : ')';
    Json list = Json::array();
    while (!Take(close)) {
      auto item = Value(depth + 1);
      if (!item) return std::nullopt;
      list.push_back(std::move(*item));
      if (!Take(',') && Peek() != close) return std::nullopt;
    }
    return list;
  }
  std::optional<Json> Map(uint32_t depth) {
    ++at_;
    Json map = Json::object();
    while (!Take('}')) {
      auto key = Value(depth + 1);
      if (!key || !key->is_string() || !Take(':')) return std::nullopt;
      auto value = Value(depth + 1);
      if (!value) return std::nullopt;
      map[key->get<std::string>()] = std::move(*value);
      if (!Take(',') && Peek() != '}') return std::nullopt;
    }
    return map;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<ToolCall> ParsePythonCalls(std::string_view text) {
  return Reader(text).Calls();
}

}  // namespace pie
