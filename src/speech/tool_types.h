// ToolTypes: which types of JSON the parameters of tools take. Some models write arguments without
// quotes, so the text "7" and the number 7 look the same; the tool's schema tells which is meant.
// One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pie {

class ToolTypes {
 public:
  // Reads the schema of a tool, JSON as a chat template takes it. It replaces an earlier tool of
  // this name. A schema that cannot be read says nothing.
  void Add(std::string_view tool);
  // Whether what was written for a parameter is a text: its schema takes texts, and no values like
  // `value`, which the text could be otherwise.
  bool IsText(std::string_view tool, std::string_view parameter, const nlohmann::json& value) const;

 private:
  using Types = uint8_t;  // a bit for each type
  using OfTool = std::map<std::string, Types, std::less<>>;

  std::map<std::string, OfTool, std::less<>> tools_;
  size_t bytes_ = 0;  // of the names
};

}  // namespace pie
