// TokenRules: restricts the tokens of a pass or a chain. The host implements it with matchers of
// grammars; the scheduler knows no grammar.
//
// The scheduler calls it on the step thread, and the device asks for the masks (batch.h) while it
// samples: never both at the same time for one pass.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/batch.h"
#include "base/result.h"

namespace pie {

class TokenRules {
 public:
  virtual ~TokenRules() = default;

  // Takes the next token of the text. Returns whether the text is complete with it, so that no
  // token may follow.
  virtual Result<bool> Accept(uint32_t token) = 0;
  // The tokens that must come next, at most `most`. The text is not complete behind them.
  virtual std::vector<uint32_t> Forced(uint32_t most) = 0;
  // Begins to make the masks of the next pass on another thread: mask 0 for the token that comes
  // next, and mask i for the token behind draft i. Cuts `draft` at the first token that is not
  // allowed.
  virtual void Prepare(std::vector<uint32_t>& draft) = 0;
  // Valid until the next Prepare.
  virtual TokenMasks& masks() = 0;
};

}  // namespace pie
