// Finds where a JSON value ends in a text that may continue or be unfinished. It looks at brackets
// and quotes only, and builds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pie {

inline constexpr size_t kUnfinished = static_cast<size_t>(-1);

// The length of the object, list or string at the front of `text`; kUnfinished if its end is
// missing; 0 if it is nested deeper than `depth`.
size_t JsonLength(std::string_view text, uint32_t depth);

// The keys and raw values of the object `text`. Empty if `text` is not an object.
std::vector<std::pair<std::string, std::string_view>> JsonEntries(std::string_view text);

// The raw items of the list `text`.
std::vector<std::string_view> JsonItems(std::string_view text);

}  // namespace pie
