// Trailing command-line arguments as an inferlet's input: `-- --max-tokens 8 --greedy hello` is
// {"max_tokens": 8, "greedy": true, "_positional": ["hello"]}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace pie::cli {

// Values are int, float, bool or string by their shape. A flag that is followed by no value is
// true. Fails on text that is not UTF-8, which JSON cannot carry.
Result<nlohmann::json> ParseArguments(const std::vector<std::string>& arguments);

// What `--input` gives: JSON text, `@file`, or `-` for standard input. Reads no more than the
// limit.
Result<nlohmann::json> ReadInput(const std::string& input, size_t max_bytes);

}  // namespace pie::cli
