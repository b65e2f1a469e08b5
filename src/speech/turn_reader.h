// TurnReader: finds the model's turns in the tokens of a context. It recognises the beginning and
// the end of a turn by the tokens that the model's chat template writes there. A turn that a limit
// has cut ends where the next one begins. A reader is immutable; reading costs one pass over the
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "speech/model.h"

namespace pie {

class TurnReader {
 public:
  struct Turn {
    std::string prompt;            // the text between the model's previous turn and this one
    std::string said;              // the model's text, without the end of the turn
    std::vector<uint32_t> tokens;  // the tokens of `said`
    bool ended = false;
  };

  // The tokenizer of `model` must outlive the reader.
  static Result<TurnReader> Make(const Model& model);

  // Returns all turns of the model. The last one may be empty, if the model is about to begin it.
  std::vector<Turn> Read(std::span<const uint32_t> context) const;
  // Returns the bytes of the tokens, with special tokens by their names.
  std::string Text(std::span<const uint32_t> tokens) const;
  std::string_view Text(uint32_t token) const;
  bool Ends(uint32_t token) const;           // whether the token ends a turn
  uint32_t end() const { return ends_[0]; }  // the token that ends a turn

 private:
  bool Opens(uint32_t token) const;  // whether the token begins a turn of any participant

  const Tokenizer* tokenizer_ = nullptr;
  std::vector<uint32_t> cue_;
  std::vector<uint32_t> ends_;  // at least one
};

}  // namespace pie
