#include "speech/tool_types.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/limits.h"
#include "speech/json_scan.h"

namespace pie {
namespace {

using nlohmann::json;

enum : uint8_t { kNull = 1, kBoolean = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32 };
constexpr uint8_t kAny = 63;

// Names of all tools together. A process that has more tools forgets those before.
constexpr size_t kMostBytes = 256 << 10;
// How deep references and combinations of a schema are followed, and how many of them.
constexpr int kDepth = 8;
constexpr int kSteps = 500;

uint8_t TypeNamed(const json& name) {
  constexpr std::array<std::pair<const char*, uint8_t>, 7> kNames = {{{"null", kNull},
                                                                      {"boolean", kBoolean},
                                                                      {"integer", kNumber},
                                                                      {"number", kNumber},
                                                                      {"string", kString},
                                                                      {"array", kArray},
                                                                      {"object", kObject}}};
  for (const auto& [known, type] : kNames) {
    if (name == known) return type;
  }
  return 0;
}

uint8_t TypeOf(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return kNull;
    case json::value_t::boolean:
      return kBoolean;
    case json::value_t::string:
      return kString;
    case json::value_t::array:
      return kArray;
    case json::value_t::object:
      return kObject;
    default:
      return kNumber;
  }
}

// Reads one schema; references begin at `root`.
class Reader {
 public:
  explicit Reader(const json& root) : root_(root) {}

  uint8_t Read(const json& schema, int depth = kDepth) {
    if (depth == 0 || ++steps_ > kSteps || !schema.is_object()) return kAny;
    uint8_t types = kAny;
    for (const auto& [key, value] : schema.items()) {
      if (key == "type") types &= value.is_array() ? Union(value, TypeNamed) : TypeNamed(value);
      if (key == "const") types &= TypeOf(value);
      if (key == "enum") types &= Union(value, TypeOf);
      if (key == "$ref") types &= Refer(value, depth);
      if (key == "anyOf" || key == "oneOf") {
        types &= Union(value, [&](const json& one) { return Read(one, depth - 1); });
      }
      if (key == "allOf" && value.is_array()) {
        for (const json& one : value) types &= Read(one, depth - 1);
      }
    }
    return types;
  }

 private:
  template <class Function>
  static uint8_t Union(const json& list, Function type) {
    if (!list.is_array()) return kAny;
    uint8_t types = 0;
    for (const json& one : list) types |= type(one);
    return types;
  }

  uint8_t Refer(const json& reference, int depth) {
    if (!reference.is_string()) return kAny;
    const auto& text = reference.get_ref<const std::string&>();
    if (!text.starts_with("#/")) return kAny;
    try {
      const json::json_pointer pointer(text.substr(1));
      return root_.contains(pointer) ? Read(root_.at(pointer), depth - 1) : kAny;
    } catch (const json::exception&) {  // not a pointer
      return kAny;
    }
  }

  const json& root_;
  int steps_ = 0;
};

}  // namespace

void ToolTypes::Add(std::string_view tool) {
  if (JsonLength(tool, limits::kToolCallDepth) != tool.size()) return;
  const json parsed = json::parse(tool, nullptr, false);
  if (!parsed.is_object()) return;
  const json& function = parsed.contains("function") ? parsed["function"] : parsed;
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) return;
  const auto name = function["name"].get<std::string>();
  OfTool types;
  size_t bytes = name.size();
  if (function.contains("parameters") && function["parameters"].contains("properties")) {
    const json& parameters = function["parameters"];
    for (const auto& [key, schema] : parameters["properties"].items()) {
      types[key] = Reader(parameters).Read(schema);
      bytes += key.size() + sizeof(types);
    }
  }
  if (bytes > kMostBytes) return;
  if (bytes_ + bytes > kMostBytes) {
    tools_.clear();
    bytes_ = 0;
  }
  bytes_ += bytes;
  tools_[name] = std::move(types);
}

bool ToolTypes::IsText(std::string_view tool, std::string_view parameter, const json& value) const {
  const auto types = tools_.find(tool);
  if (types == tools_.end()) return false;
  const auto found = types->second.find(parameter);
  if (found == types->second.end()) return false;
  return (found->second & kString) != 0 && (found->second & TypeOf(value)) == 0;
}

}  // namespace pie
