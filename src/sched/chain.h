// Chain: passes that follow one another without the caller. Each feeds the token that the one
// before it chose, in the very next batch; no guest is woken between them.
//
// A chain ends with a stop token, at its limit, with an error, or because another operation was
// asked of its sequence: that operation follows the pass under way. The Forward's `done` says that
// the chain has ended; the tokens come one by one through `give`.
//
// Owner: the Forward that carries it, so the step thread once that is queued. The callbacks are
// called there: be quick, never block.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backend/batch.h"
#include "base/brle.h"
#include "base/result.h"

namespace pie {

struct BackendInfo;
struct Forward;
struct ScheduledPass;

struct Chain {
  enum class End : uint8_t { kStop, kLimit };

  uint32_t max_tokens = 1;      // at least 1
  std::vector<uint32_t> stops;  // sorted

  // The seed of the pass that chooses token `step`, from 1 on; token 0 has the Forward's own. A
  // pure function: it may be asked for passes that are taken back.
  std::move_only_function<uint64_t(uint32_t step)> seed;
  // Takes a token, also a stop token, and says whether the chain ends with it.
  std::move_only_function<void(uint32_t token, std::optional<End> end)> give;
  // May another pass run? An error ends the chain and leaves its sequence whole. Null: yes.
  std::move_only_function<Status()> admit;
  // Changes the last pass's mask into the next one's, given the token that was just chosen. This is
  // where a matcher runs that needs no guest. Null: every pass has the Forward's mask. Work of more
  // than a few microseconds belongs on another thread, begun when the token is given, so that the
  // mask is there when the device is.
  std::move_only_function<Status(uint32_t token, Brle& mask)> mask;
};

// What is wrong with a Forward that carries a chain; nothing for others.
Status CheckChain(const Forward& forward);

// A pass of a chain that is in flight may be followed at once by the next one, whose token the
// device carries over (batch.h), if it need not be known for that. Of the passes of a prompt, the
// first of the chain has to end before others follow.
bool MayGoAhead(const ScheduledPass& pass);
// The seed of that next pass.
uint64_t SeedAhead(ScheduledPass& pass);

// Gives the token of a pass that has run, and makes the pass its own successor. False: the chain
// ends with this token, or `last` says so. `pass` carries a chain. If the successor is in flight
// already and the chain ends here, the caller takes it back.
Result<bool> FollowOn(ScheduledPass& pass, const std::vector<Slot>& slots, bool last);

}  // namespace pie
