#include "cli/testing/toml_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace pie::cli {
namespace {

std::unexpected<Error> Wrong(const toml::node& node, std::string_view key, std::string_view wanted,
                             const std::string& path) {
  return Fail(Code::kInvalid, "{}: '{}' must be {}", PlaceOf(node, path), key, wanted);
}

}  // namespace

std::string PlaceOf(const toml::node& node, const std::string& path) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

Result<toml::table> ParseTomlFile(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return Fail(Code::kNotFound, "the file {} does not exist", path);
  }
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
}

Status CheckKeys(const toml::table& table, std::initializer_list<std::string_view> known,
                 const std::string& path) {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) != known.end()) continue;
    return Fail(Code::kInvalid, "{}: unknown key '{}'; the keys here are {}", PlaceOf(node, path),
                key.str(), fmt::join(known, ", "));
  }
  return {};
}

Status ReadText(const toml::table& table, std::string_view key, const std::string& path,
                std::string* into) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) return {};
  if (!node->is_string()) return Wrong(*node, key, "a text in quotes", path);
  *into = node->as_string()->get();
  return {};
}

Status ReadFlag(const toml::table& table, std::string_view key, const std::string& path,
                bool* into) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) return {};
  if (!node->is_boolean()) return Wrong(*node, key, "true or false", path);
  *into = node->as_boolean()->get();
  return {};
}

Status ReadNumber(const toml::table& table, std::string_view key, const std::string& path,
                  uint64_t least, uint64_t most, uint64_t* into) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) return {};
  const int64_t value = node->is_integer() ? node->as_integer()->get() : -1;
  if (value < 0 || std::cmp_less(value, least) || std::cmp_greater(value, most)) {
    return Wrong(*node, key, fmt::format("a whole number from {} to {}", least, most), path);
  }
  *into = static_cast<uint64_t>(value);
  return {};
}

Status ReadTexts(const toml::table& table, std::string_view key, const std::string& path,
                 std::vector<std::string>* into) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) return {};
  into->clear();
  if (node->is_string()) {
    into->push_back(node->as_string()->get());
    return {};
  }
  const toml::array* const list = node->as_array();
  if (list == nullptr || (!list->empty() && !list->is_homogeneous<std::string>())) {
    return Wrong(*node, key, "a text in quotes or a list of such texts", path);
  }
  for (const toml::node& item : *list) into->push_back(item.as_string()->get());
  return {};
}

Result<std::vector<const toml::table*>> ReadTables(const toml::table& table, std::string_view key,
                                                   const std::string& path) {
  std::vector<const toml::table*> tables;
  const toml::node* const node = table.get(key);
  if (node == nullptr) return tables;
  const toml::array* const list = node->as_array();
  if (list == nullptr || (!list->empty() && !node->is_array_of_tables())) {
    return Wrong(*node, key, "a list of tables", path);
  }
  for (const toml::node& item : *list) tables.push_back(item.as_table());
  return tables;
}

nlohmann::json ToJson(const toml::node& node) {
  if (const toml::table* table = node.as_table()) {
    auto json = nlohmann::json::object();
    for (const auto& [key, value] : *table) json[std::string(key.str())] = ToJson(value);
    return json;
  }
  if (const toml::array* list = node.as_array()) {
    auto json = nlohmann::json::array();
    for (const toml::node& value : *list) json.push_back(ToJson(value));
    return json;
  }
  if (node.is_string()) return node.as_string()->get();
  if (node.is_integer()) return node.as_integer()->get();
  if (node.is_floating_point()) return node.as_floating_point()->get();
  if (node.is_boolean()) return node.as_boolean()->get();
  std::ostringstream text;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) text << value.get();
  });
  return text.str();
}

}  // namespace pie::cli
