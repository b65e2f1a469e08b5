// One line of text for a terminal or a log, whoever wrote it.
#pragma once

#include <string>
#include <string_view>

namespace pie {

// Makes the text valid UTF-8 and replaces its control characters by '?', those of U+0080 to U+009F
// too. So it cannot begin a line, move the cursor or send commands to a terminal.
std::string OneLine(std::string_view text);

}  // namespace pie
