// Chat turns as the model's own template writes them, and the way back from tokens to text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::chat {

// Tokens for Context::Append; Context::System and its like do both.
std::vector<uint32_t> System(const Model& model, std::string_view message);
std::vector<uint32_t> User(const Model& model, std::string_view message);
std::vector<uint32_t> Assistant(const Model& model, std::string_view message);
std::vector<uint32_t> Cue(const Model& model);
std::vector<uint32_t> Seal(const Model& model);
// Ids that end a turn.
std::vector<uint32_t> StopTokens(const Model& model);

struct Delta {  // text that became visible
  std::string text;
};
struct Done {        // the turn has ended
  std::string text;  // all of it
};
struct Idle {};     // nothing to tell
struct Interrupt {  // a control token that the text does not show
  uint32_t token;
};
using Event = std::variant<Delta, Done, Idle, Interrupt>;

class Decoder {
 public:
  explicit Decoder(const Model& model);
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();  // before another turn

 private:
  pie::instruct::chat::Decoder raw_;
};

}  // namespace inferlet::chat
