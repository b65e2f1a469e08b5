#include "speech/json_scan.h"

#include <nlohmann/json.hpp>

#include "model/limits.h"

namespace pie {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Splits the inside of the brackets of `text` at `separator`, but not within values.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (size_t at = 0; at <= text.size();) {
    if (at == text.size() || text[at] == separator) {
      parts.push_back(Trim(text.substr(from, at - from)));
      from = ++at;
    } else if (text[at] == '{' || text[at] == '[' || text[at] == '"') {
      const size_t length = JsonLength(text.substr(at), limits::kToolCallDepth);
      if (length == kUnfinished || length == 0) return {};
      at += length;
    } else {
      ++at;
    }
  }
  if (parts.size() == 1 && parts[0].empty()) parts.clear();
  return parts;
}

}  // namespace

size_t JsonLength(std::string_view text, uint32_t depth) {
  std::string open;  // the closing brackets that are due
  bool in_text = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_text) {
      if (c == '\\') {
        ++at;
      } else if (c == '"') {
        in_text = false;
        if (open.empty()) return at + 1;
      }
      continue;
    }
    if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (open.size() == depth) return 0;
      open.push_back(c == '{' ? '}' : ']');
    } else if (c == '}' || c == ']') {
      if (open.empty() || open.back() != c) return 0;
      open.pop_back();
      if (open.empty()) return at + 1;
    }
  }
  return kUnfinished;
}

std::vector<std::pair<std::string, std::string_view>> JsonEntries(std::string_view text) {
  text = Trim(text);
  if (!text.starts_with('{') || !text.ends_with('}')) return {};
  std::vector<std::pair<std::string, std::string_view>> entries;
  for (std::string_view entry : Split(text.substr(1, text.size() - 2), ',')) {
    const size_t key = entry.starts_with('"') ? JsonLength(entry, 1) : kUnfinished;
    if (key == kUnfinished || key == 0) return {};
    const std::string_view rest = Trim(entry.substr(key));
    const auto name = nlohmann::json::parse(entry.substr(0, key), nullptr, false);
    if (!rest.starts_with(':') || !name.is_string()) return {};
    entries.emplace_back(name.get<std::string>(), Trim(rest.substr(1)));
  }
  return entries;
}

std::vector<std::string_view> JsonItems(std::string_view text) {
  text = Trim(text);
  if (!text.starts_with('[') || !text.ends_with(']')) return {};
  return Split(text.substr(1, text.size() - 2), ',');
}

}  // namespace pie
