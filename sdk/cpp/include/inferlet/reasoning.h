// The model's reasoning, apart from its answer.
#pragma once

#include <cstdint>
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
  std::string text;  // all of it
};
// What Feed returns.
using Event = std::variant<Idle, Start, Delta, End>;

// Finds reasoning blocks in the tokens of the model's turn.
class Decoder {
 public:
  // A decoder at the beginning of a turn.
  explicit Decoder(const Model& model);
  // Takes the next tokens and says what they changed. An error for ids outside the vocabulary.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  // Goes back to the beginning, before another turn.
  void Reset();

 private:
  pie::instruct::reasoning::Decoder raw_;
};

}  // namespace inferlet::reasoning
