// Parses JSON from untrusted files and peers. Only for sources: headers that other folders include
// do not expose the JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace pie {

// Fails on anything but one JSON object, on a duplicate key, and on nesting deeper than `depth`,
// before it builds any value. Errors begin with `name`.
Result<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view name,
                                       uint32_t depth);

}  // namespace pie
