// TokenRules: restricts the tokens of a pass or a chain. The host implements it with matchers of
// grammars; the scheduler knows no grammar.
//
// The scheduler calls it on the step thread, and the device asks for the masks (batch.h) while it
// samples: never both at the same time for one pass.
#pragma once

#include <cstdint>
#include <functional>
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
  // next, and mask i for the token after draft i. Cuts `draft` at the first token that is not
  // allowed.
  virtual void Prepare(std::vector<uint32_t>& draft) = 0;
  // Valid until the next Prepare.
  virtual TokenMasks& masks() = 0;

  // Whether the calls above, and the masks, may take long at present. The scheduler then asks for
  // WorkAhead, and only the pass with these rules waits: the step thread and the batches do not.
  virtual bool is_slow() const { return false; }
  // Works on another thread. If the device has chosen a token: takes it, finds what is forced
  // behind it, and makes the mask of the next pass. If `chosen` is empty: makes the masks that
  // Prepare was called for. The scheduler then asks for the same things as ever, and gets them at
  // once. Calls `ready` once, on any thread, also if the work has failed. Fails if too much work
  // waits; `ready` may then be called or not.
  virtual Status WorkAhead(std::vector<uint32_t> /*chosen*/,
                           std::move_only_function<void()> ready) {
    ready();
    return {};
  }
  // Whether a batch did not get a mask because it would have had to wait for too long. Asked once:
  // the pass then runs again.
  virtual bool WasLate() { return false; }
};

}  // namespace pie
