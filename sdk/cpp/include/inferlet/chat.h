// Chat turns as the model's own template writes them, and a decoder from tokens to text.
//
// The functions here return tokens for Context::Append. Context::System and the like make the
// tokens and append them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::chat {

// Returns the tokens of a system message.
std::vector<uint32_t> System(const Model& model, std::string_view message);
// Returns the tokens of a turn of the user.
std::vector<uint32_t> User(const Model& model, std::string_view message);
// Returns the tokens of a finished turn of the model.
std::vector<uint32_t> Assistant(const Model& model, std::string_view message);
// Returns the tokens that open the model's own turn.
std::vector<uint32_t> Cue(const Model& model);
// Returns the tokens that close the model's own turn.
std::vector<uint32_t> Seal(const Model& model);
// Returns the ids that end a turn.
std::vector<uint32_t> StopTokens(const Model& model);

struct Delta {  // text that became visible
  // The new text, always whole characters.
  std::string text;
};
struct Done {        // the turn has ended
  std::string text;  // the text of the whole turn
};
struct Idle {};     // no new text
struct Interrupt {  // a control token that the text does not show
  // The id of the token.
  uint32_t token;
};
// The result of Decoder::Feed.
using Event = std::variant<Delta, Done, Idle, Interrupt>;

// Turns the tokens of the model's turn into text. It holds bytes back until they form whole
// characters.
class Decoder {
 public:
  // Makes a decoder at the beginning of a turn.
  explicit Decoder(const Model& model);
  // Decodes the next tokens and returns what they changed. Fails on ids outside the vocabulary.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  Result<Event> Feed(std::initializer_list<uint32_t> tokens) {
    return Feed(std::span(tokens.begin(), tokens.size()));
  }
  void Reset();  // forgets the turn; call it before another turn

 private:
  pie::instruct::chat::Decoder raw_;
};

}  // namespace inferlet::chat
