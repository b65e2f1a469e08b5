// Where a JSON value ends in a text that may go on or be unfinished: a look at brackets and quotes,
// without building anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pie {

inline constexpr size_t kUnfinished = static_cast<size_t>(-1);

// The length of the object, list or string at the front of `text`, kUnfinished if its end is not
// there. Deeper than `depth`: 0.
size_t JsonLength(std::string_view text, uint32_t depth);

// Keys and raw values of the whole object `text`. Empty if it is none.
std::vector<std::pair<std::string, std::string_view>> JsonEntries(std::string_view text);

// The raw items of the whole list `text`.
std::vector<std::string_view> JsonItems(std::string_view text);

}  // namespace pie
