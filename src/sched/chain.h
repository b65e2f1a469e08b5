// Chain: passes that follow one another without whoever asked for the first. Each feeds the token
// that the one before it chose, in the very next batch; between them nobody is woken.
//
// A chain ends by a stop token, at its limit, by an error, or because something else was asked of
// its sequence: whatever lines up behind a chain takes its turn after the pass under way. Its
// Forward's `done` says that it has ended; the tokens come one by one through `give`.
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

  // The seed of the pass that chooses token `step`, from 1 on; token 0 has the Forward's own.
  std::move_only_function<uint64_t(uint32_t step)> seed;
  // Takes a token, a stop token too, and whether the chain ends with it.
  std::move_only_function<void(uint32_t token, std::optional<End> end)> give;
  // May another pass run? An error ends the chain and leaves its sequence whole. Null: yes.
  std::move_only_function<Status()> admit;
  // The mask of the next pass, from the token that was just chosen: the place of a matcher, which
  // then needs no guest. It changes what is there: the last pass's mask. Null: every pass has the
  // Forward's. What takes longer than a few microseconds belongs on another thread, begun when the
  // token is given, so that the mask is there when the device is.
  std::move_only_function<Status(uint32_t token, Brle& mask)> mask;
};

// What is wrong with a Forward that carries a chain; nothing for others.
Status CheckChain(const Forward& forward);

// Gives the token of a pass that has run, and makes the pass its own successor. False: the chain
// ends with this token, or `last` says so. `pass` carries a chain.
Result<bool> FollowOn(ScheduledPass& pass, const std::vector<Slot>& slots, bool last);

}  // namespace pie
