#include "speech/tool_call.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "model/limits.h"
#include "speech/json_scan.h"
#include "speech/python_call.h"

namespace pie {
namespace {

using Form = CallFormat::Form;
constexpr std::string_view kSpace = " \t\r\n";

size_t SkipSpace(std::string_view text, size_t from) {
  return std::min(text.find_first_not_of(kSpace, from), text.size());
}

bool IsNamePart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

std::string_view NameAt(std::string_view text, size_t from) {
  size_t end = from;
  while (end < text.size() && IsNamePart(text[end])) ++end;
  return text.substr(from, end - from);
}

// Returns arguments as a JSON object: the raw value, or the object inside a JSON string.
std::optional<std::string> ToArguments(std::string_view raw) {
  if (raw.empty() || raw == "null") return "{}";
  if (!nlohmann::json::accept(raw)) return std::nullopt;
  if (raw.starts_with('{')) return std::string(raw);
  if (!raw.starts_with('"')) return std::nullopt;
  std::string inner = nlohmann::json::parse(raw).get<std::string>();
  if (JsonLength(inner, limits::kToolCallDepth) != inner.size()) return std::nullopt;
  if (!inner.starts_with('{') || !nlohmann::json::accept(inner)) return std::nullopt;
  return inner;
}

std::optional<ToolCall> ObjectCall(const CallFormat& format, std::string_view object) {
  const auto entries = JsonEntries(object);
  ToolCall call;
  std::string_view raw;
  if (format.name_key.empty()) {
    if (entries.size() != 1) return std::nullopt;
    call.name = entries[0].first;
    raw = entries[0].second;
  } else {
    for (const auto& [key, value] : entries) {
      if (key == format.name_key) {
        const auto name = nlohmann::json::parse(value, nullptr, false);
        if (name.is_string()) call.name = name.get<std::string>();
      } else if (key == format.arguments_key ||
                 (raw.empty() && (key == "arguments" || key == "parameters"))) {
        raw = value;
      }
    }
    if (raw.empty() && format.open.empty()) return std::nullopt;  // JSON, but not a call
  }
  auto arguments = ToArguments(raw);
  if (call.name.empty() || !arguments) return std::nullopt;
  call.arguments = std::move(*arguments);
  return call;
}

// Skips a text that turned out not to be a call.
ParsedCalls PassOver(std::string_view body) {
  return {.calls = {}, .used = body.size()};
}

ParsedCalls ParseObject(const CallFormat& format, std::string_view body, bool ended) {
  const size_t start = SkipSpace(body, 0);
  if (start == body.size()) return ended ? PassOver(body) : ParsedCalls{};
  if (body[start] != '{' && body[start] != '[') return PassOver(body.substr(0, start + 1));
  const size_t length = JsonLength(body.substr(start), limits::kToolCallDepth);
  if (length == kUnfinished) return ended ? PassOver(body) : ParsedCalls{};
  if (length == 0) return PassOver(body.substr(0, start + 1));
  const std::string_view value = body.substr(start, length);
  ParsedCalls parsed{.calls = {}, .used = start + length};
  if (value.starts_with('{')) {
    if (auto call = ObjectCall(format, value)) parsed.calls.push_back(std::move(*call));
    return parsed;
  }
  for (std::string_view item : JsonItems(value)) {
    if (auto call = ObjectCall(format, item)) parsed.calls.push_back(std::move(*call));
  }
  return parsed;
}

ParsedCalls ParseNamed(std::string_view body, bool ended) {
  const size_t start = SkipSpace(body, 0);
  const std::string_view name = NameAt(body, start);
  if (start + name.size() == body.size()) return ended ? PassOver(body) : ParsedCalls{};
  if (name.empty()) return PassOver(body.substr(0, start + 1));
  constexpr size_t kLongestHeader = 512;
  const size_t brace = body.find('{', start);
  if (brace == std::string_view::npos) {
    return ended || body.size() > kLongestHeader ? PassOver(body) : ParsedCalls{};
  }
  const size_t length = JsonLength(body.substr(brace), limits::kToolCallDepth);
  if (length == kUnfinished) return ended ? PassOver(body) : ParsedCalls{};
  ParsedCalls parsed{.calls = {}, .used = brace + std::max<size_t>(length, 1)};
  if (auto arguments = ToArguments(body.substr(brace, length)); arguments && length > 0) {
    parsed.calls.push_back({std::string(name), std::move(*arguments)});
  }
  return parsed;
}

// Returns the value of a text between tags: JSON if the text is JSON other than a string, and if
// `is_text` does not know better; else the text itself.
template <class IsText>
nlohmann::json TaggedValue(std::string_view text, IsText is_text) {
  const size_t length = JsonLength(text, limits::kToolCallDepth);
  const bool nested = text.starts_with('{') || text.starts_with('[');
  if (!nested || length == text.size()) {
    auto value = nlohmann::json::parse(text, nullptr, false);
    if (!value.is_discarded() && !value.is_string() && !is_text(value)) return value;
  }
  return text;
}

std::string_view TrimLines(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

ParsedCalls ParseTagged(const CallFormat& format, std::string_view body, bool ended,
                        const ToolTypes* types) {
  const size_t close = format.close.empty() ? std::string_view::npos : body.find(format.close);
  if (close == std::string_view::npos && !ended) return {};
  const std::string_view inside = body.substr(0, close);
  ParsedCalls parsed{.calls = {},
                     .used = std::min(inside.size() + format.close.size(), body.size())};
  ToolCall call{std::string(NameAt(inside, SkipSpace(inside, 0))), {}};
  if (call.name.empty()) return parsed;
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  // The mark between key and value may have attributes that the probe did not see
  // (`string="false">`). So the search looks for its first character and its closing bracket only.
  const bool open_ended =
      format.middle.find(' ') != std::string::npos && format.middle.ends_with('>');
  const std::string key_end = open_ended ? format.middle.substr(0, 1) : format.middle;
  for (size_t at = inside.find(format.first); at != std::string_view::npos;) {
    const size_t key = at + format.first.size();
    const size_t middle = inside.find(key_end, key);
    if (middle == std::string_view::npos) break;
    const size_t bracket =
        open_ended ? inside.find('>', middle) : middle + format.middle.size() - 1;
    if (bracket == std::string_view::npos) break;
    const size_t value = bracket + 1;
    const size_t last = std::min(inside.find(format.last, value), inside.size());
    const std::string name(inside.substr(key, middle - key));
    const auto is_text = [&](const nlohmann::json& other) {
      return types != nullptr && types->IsText(call.name, name, other);
    };
    arguments[name] = TaggedValue(TrimLines(inside.substr(value, last - value)), is_text);
    at = inside.find(format.first, last);
  }
  call.arguments = arguments.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  parsed.calls.push_back(std::move(call));
  return parsed;
}

ParsedCalls ParsePython(const CallFormat& format, std::string_view body, bool ended) {
  const size_t close = format.close.empty() ? std::string_view::npos : body.find(format.close);
  if (close == std::string_view::npos && !ended) return {};
  const std::string_view inside = body.substr(0, close);
  const size_t used = std::min(inside.size() + format.close.size(), body.size());
  return {.calls = ParsePythonCalls(inside), .used = std::max<size_t>(used, 1)};
}

}  // namespace

ParsedCalls ParseCall(const CallFormat& format, std::string_view body, bool ended,
                      const ToolTypes* types) {
  switch (format.form) {
    case Form::kObject:
      return ParseObject(format, body, ended);
    case Form::kNamed:
      return ParseNamed(body, ended);
    case Form::kTagged:
      return ParseTagged(format, body, ended, types);
    case Form::kPython:
      break;
  }
  return ParsePython(format, body, ended);
}

}  // namespace pie
