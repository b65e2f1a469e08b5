// ChatDecoder: tokens → what a reader sees. Emits only whole UTF-8 characters and holds the rest
// back. One owner, one thread.
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
    uint32_t token;  // a control token that is no stop
  };
  struct Done {
    std::string text;  // the whole turn
  };
  using Event = std::variant<Delta, Interrupt, Done>;

  explicit ChatDecoder(const Model& model) : model_(&model), bytes_(*model.tokenizer) {}
  // One event a call: Done if a stop token is among the tokens (what follows it is ignored), else
  // Interrupt if a control token is (visible text around it is kept for the next call), else Delta.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();

 private:
  const Model* model_;
  TextPieces bytes_;
  std::string text_;     // the turn so far, whole characters
  std::string unsent_;   // visible, not yet given out
  std::string partial_;  // bytes of an unfinished character
};

}  // namespace pie
