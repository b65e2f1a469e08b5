// Expectation: what a test expects of a text, and a description of how a text differs from it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace pie::cli {

struct Expectation {
  enum class How { kIs, kContains, kMatches, kIsJson };
  How how = How::kIs;
  std::string text;     // a regular expression of ECMAScript, if it has to match
  nlohmann::json json;  // of kIsJson

  // Describes how `got` differs from the expectation; nothing if it does not. `what` names the text
  // in the description ("the return value").
  std::optional<std::string> DifferenceOf(std::string_view what, std::string_view got) const;
};

}  // namespace pie::cli
