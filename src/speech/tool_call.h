// Tool calls in the text of a turn, in a family's own format. The text comes from a model: it may
// be anything, and what is no call is passed over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "speech/formats.h"

namespace pie {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

struct ParsedCalls {
  std::vector<ToolCall> calls;
  size_t used = 0;  // bytes of the text that are done with; 0: more is needed
};

// The call that begins at the front of `body`, behind the format's `open`. `ended`: nothing will be
// added. A text that cannot become a call is used up without one.
ParsedCalls ParseCall(const CallFormat& format, std::string_view body, bool ended);

}  // namespace pie
