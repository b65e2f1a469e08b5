// The model's reasoning, apart from its answer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <variant>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::reasoning {

struct Idle {};
struct Start {};  // a reasoning block begins
// Reasoning that became visible.
struct Delta {
  // The new text.
  std::string text;
};
struct End {         // the block has ended
  std::string text;  // the text of the whole block
};
// The result of Decoder::Feed.
using Event = std::variant<Idle, Start, Delta, End>;

// Finds reasoning blocks in the tokens of the model's turn.
class Decoder {
 public:
  // Makes a decoder at the beginning of a turn.
  explicit Decoder(const Model& model);
  // Decodes the next tokens and returns what they changed. Fails on ids outside the vocabulary.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  Result<Event> Feed(std::initializer_list<uint32_t> tokens) {
    return Feed(std::span(tokens.begin(), tokens.size()));
  }
  // Forgets the turn. Call it before another turn.
  void Reset();

 private:
  pie::instruct::reasoning::Decoder raw_;
};

}  // namespace inferlet::reasoning
