// The formats in which a model marks its thoughts and its tool calls. Both are found by probing the
// model's chat template. The decoders use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pie {

// The model's thoughts stand between these texts.
struct ReasoningFormat {
  std::string open;
  std::string close;
  std::optional<uint32_t> close_token;  // of a `close` that is one special token
  bool begins_inside = false;           // the cue has already written `open`
  // Rules of a Lark grammar; `thoughts` is what the model writes before its answer.
  std::string rules;
  std::string rules_inside;  // the same, behind a cue that has written `open`
};

// How the model writes a call. An empty `open`: the call is the whole turn.
struct CallFormat {
  enum class Form : uint8_t {
    kObject,  // {"name": …, "arguments": …}, or a list of them; no name_key: {name: arguments}
    kNamed,   // a name, anything, the arguments as a JSON object
    kTagged,  // a name, then `first` key `middle` value `last` for each argument
    kPython,  // [name(key=value, …), …]
  };
  Form form = Form::kObject;
  std::string open;
  std::string close;
  std::string name_key;
  std::string arguments_key;
  std::string first;
  std::string middle;
  std::string last;
};

}  // namespace pie
