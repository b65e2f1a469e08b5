// ChatDecoder turns tokens into the text that a reader sees. It gives out whole UTF-8 characters
// only, and holds an unfinished one back. One owner, one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "speech/model.h"
#include "speech/text_pieces.h"

namespace pie {

class ChatDecoder {
 public:
  struct Delta {
    std::string text;  // may be empty
  };
  struct Interrupt {
    uint32_t token;  // a control token that does not end the turn
  };
  struct Done {
    std::string text;  // the whole turn
  };
  using Event = std::variant<Delta, Interrupt, Done>;

  explicit ChatDecoder(const Model& model) : model_(&model), bytes_(*model.tokenizer) {}
  // Returns one event: Done if a stop token is among the tokens (later tokens are ignored), else
  // Interrupt if a control token is among them (the text around it comes with the next call), else
  // Delta.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();
  // How many bytes of text the decoder keeps.
  size_t bytes() const { return text_.size() + unsent_.size() + partial_.size(); }

 private:
  const Model* model_;
  TextPieces bytes_;
  std::string text_;     // the turn so far, whole characters
  std::string unsent_;   // text that was not given out yet
  std::string partial_;  // bytes of an unfinished character
};

}  // namespace pie
