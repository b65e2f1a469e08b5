// Strict access to the tables of test and script files: every key is known, every value has its
// type, and errors name file and line.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie::cli {

// `file:line`, of a node of that file.
std::string PlaceOf(const toml::node& node, const std::string& path);

Result<toml::table> ParseTomlFile(const std::string& path);

// Fails on a key of `table` that is not in `known`.
Status CheckKeys(const toml::table& table, std::initializer_list<std::string_view> known,
                 const std::string& path);

// Each leaves `into` alone if the key is absent.
Status ReadText(const toml::table& table, std::string_view key, const std::string& path,
                std::string* into);
Status ReadFlag(const toml::table& table, std::string_view key, const std::string& path,
                bool* into);
Status ReadNumber(const toml::table& table, std::string_view key, const std::string& path,
                  uint64_t least, uint64_t most, uint64_t* into);
// A text, or a list of texts.
Status ReadTexts(const toml::table& table, std::string_view key, const std::string& path,
                 std::vector<std::string>* into);
// The tables of an array, or none.
Result<std::vector<const toml::table*>> ReadTables(const toml::table& table, std::string_view key,
                                                   const std::string& path);

// Dates and times become texts.
nlohmann::json ToJson(const toml::node& node);

}  // namespace pie::cli
