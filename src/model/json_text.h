// JSON from files that are not trusted. Only for sources of this folder: the headers that others
// include do not show the JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace pie {

// Fails on anything but one JSON object, on a key that is there twice, and on nesting beyond
// `depth`, before anything is built of it. Errors begin with `name`.
Result<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view name,
                                       uint32_t depth);

}  // namespace pie
