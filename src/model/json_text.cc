#include "model/json_text.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/shown.h"

namespace pie {
namespace {

using nlohmann::json;

bool IsDeeperThan(std::string_view text, uint32_t limit) {
  uint32_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<json> ParseJsonObject(std::string_view text, std::string_view name, uint32_t depth) {
  // The JSON library recurses, so nesting is limited before it parses.
  if (IsDeeperThan(text, depth)) {
    return Fail(Code::kInvalid, "{}: the JSON is nested deeper than {} levels", name, depth);
  }
  std::vector<std::set<std::string>> open;  // the keys seen so far in each enclosing object
  std::optional<std::string> twice;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second && !twice) twice = key;
    }
    return true;
  };
  try {
    json value = json::parse(text, watch);
    if (twice)
      return Fail(Code::kInvalid, "{}: duplicate key '{}' in the JSON", name, Shown(*twice));
    if (!value.is_object()) return Fail(Code::kInvalid, "{}: the JSON must be an object", name);
    return value;
  } catch (const json::exception& error) {
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find(']') + 1, what.size()));  // the library's error number
    return Fail(Code::kInvalid, "{}: malformed JSON:{}", name, Shown(what));
  }
}

}  // namespace pie
