// OneLine: makes any text fit on one line of a terminal or a log, without control characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pie {

// Makes the text valid UTF-8 and replaces its control characters by '?', those of U+0080 to U+009F
// too. So it cannot begin a line, move the cursor or send commands to a terminal.
std::string OneLine(std::string_view text);

// Returns the length of the control character at a place of valid UTF-8, or 0 if there is none.
size_t ControlCharacterAt(std::string_view text, size_t place);

}  // namespace pie
