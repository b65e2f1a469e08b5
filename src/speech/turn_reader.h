// TurnReader: finds the model's turns in the tokens of a context. It knows where a turn begins and
// ends by the tokens that the model's chat template writes there. A turn that a limit has cut ends
// where the next one begins. Immutable; reading costs a pass over the tokens.
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
    std::string prompt;            // what stands between the model's previous turn and this one
    std::string said;              // by the model, without the end of the turn
    std::vector<uint32_t> tokens;  // of `said`
    bool ended = false;
  };

  // The tokenizer of `model` must outlive the reader.
  static Result<TurnReader> Make(const Model& model);

  // All turns of the model, the last of which it may be about to begin.
  std::vector<Turn> Read(std::span<const uint32_t> context) const;
  // The bytes of the tokens, with special tokens by their names.
  std::string Text(std::span<const uint32_t> tokens) const;
  std::string_view Text(uint32_t token) const;
  bool Ends(uint32_t token) const;           // a turn
  uint32_t end() const { return ends_[0]; }  // the token that ends a turn

 private:
  bool Opens(uint32_t token) const;  // anybody's turn

  const Tokenizer* tokenizer_ = nullptr;
  std::vector<uint32_t> cue_;
  std::vector<uint32_t> ends_;  // at least one
};

}  // namespace pie
