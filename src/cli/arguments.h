// Turns trailing command-line arguments into an inferlet's input: `-- --max-tokens 8 --greedy
// hello` becomes {"max_tokens": 8, "greedy": true, "_positional": ["hello"]}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace pie::cli {

// A value becomes an int, float, bool or string by its form, but stays a string if its name is one
// of `texts`. A flag without a value is true. Hyphens of a flag become underscores, unless it is
// one of `names` that way: a manifest may declare `max-tokens`. Fails on text that is not UTF-8,
// because JSON cannot hold it.
Result<nlohmann::json> ParseArguments(const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& texts = {},
                                      const std::vector<std::string>& names = {});

// Reads the value of `--input`: JSON text, `@file`, or `-` for standard input. Fails beyond
// `max_bytes`, without reading further.
Result<nlohmann::json> ReadInput(const std::string& input, size_t max_bytes);

}  // namespace pie::cli
