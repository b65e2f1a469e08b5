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

// The functions here return tokens for Context::Append; Context::System and its like do both.
// A system message.
std::vector<uint32_t> System(const Model& model, std::string_view message);
// A turn of the user.
std::vector<uint32_t> User(const Model& model, std::string_view message);
// A finished turn of the model.
std::vector<uint32_t> Assistant(const Model& model, std::string_view message);
// What opens the model's own turn.
std::vector<uint32_t> Cue(const Model& model);
// What closes the model's own turn.
std::vector<uint32_t> Seal(const Model& model);
// Ids that end a turn.
std::vector<uint32_t> StopTokens(const Model& model);

struct Delta {  // text that became visible
  // The new text, always whole characters.
  std::string text;
};
struct Done {        // the turn has ended
  std::string text;  // all of it
};
struct Idle {};     // nothing to tell
struct Interrupt {  // a control token that the text does not show
  // The id of the token.
  uint32_t token;
};
// What Feed returns.
using Event = std::variant<Delta, Done, Idle, Interrupt>;

// Turns the tokens of the model's turn into text. It holds bytes back until they are whole
// characters.
class Decoder {
 public:
  // A decoder at the beginning of a turn.
  explicit Decoder(const Model& model);
  // Takes the next tokens and says what they changed. An error for ids outside the vocabulary.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();  // before another turn

 private:
  pie::instruct::chat::Decoder raw_;
};

}  // namespace inferlet::chat
