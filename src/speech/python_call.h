// Calls as Python writes them: [name(key="text", other=[1, True, None]), …].
#pragma once

#include <string_view>
#include <vector>

#include "speech/tool_call.h"

namespace pie {

// The calls up to the first text that is not a call.
std::vector<ToolCall> ParsePythonCalls(std::string_view text);

}  // namespace pie
