// Finds tool calls in the text of a turn, in the model's own format. The text comes from a model
// and may be anything; a text that is not a call is skipped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "speech/formats.h"
#include "speech/tool_types.h"

namespace pie {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

struct ParsedCalls {
  std::vector<ToolCall> calls;
  size_t used = 0;  // bytes of the text that were read; 0 if more text is needed
};

// Parses the call at the front of `body`, after the format's `open`. `ended` says that the text is
// complete. A text that cannot become a call is read to its end and gives no call. `types` are
// those of the tools that are known.
ParsedCalls ParseCall(const CallFormat& format, std::string_view body, bool ended,
                      const ToolTypes* types = nullptr);

}  // namespace pie
